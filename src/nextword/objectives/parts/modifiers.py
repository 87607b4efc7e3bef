"""Modifiers: the ``+name:arguments`` parts of an objective spec."""

from __future__ import annotations

from nextword.heads.parts.modifiers import Modifier
from nextword.registry import Registry

modifiers: Registry[type[Modifier]] = Registry("objective modifier")
"""All modifiers by the field they fill, which is also the name that each goes by. Every objective takes them."""
