"""Where and in which precision a verb computes."""

from __future__ import annotations

from typing import Literal

from nextword.settings.config import Settings


class ComputingOptions(Settings):
    """Where and in which precision a saved model computes."""

    device: str = "auto"
    """Where models compute: cpu, cuda, mps, ...; auto: an accelerator where there is one."""
    dtype: Literal["auto", "float64", "float32", "float16", "bfloat16"] = "auto"
    """Of the weights; auto: as saved."""
