"""A length of n-grams, as a setting."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Order = Annotated[int, Field(ge=1)]
"""n, from 1."""
