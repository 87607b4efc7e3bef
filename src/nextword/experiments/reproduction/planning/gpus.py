"""GPUs by name, with what their makers publish."""

from __future__ import annotations

from functools import cache
from importlib import resources

from pydantic import Field

from nextword.settings.config import Settings, validated
from nextword.settings.overrides import parsed
from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import named

FILE = resources.files("nextword.experiments.reproduction.planning") / "gpus.toml"

UTILISATION = 0.35
"""Share of the peak that a training reaches where nobody says better: an assumption, common for dense models."""


class Gpu(Settings):
    """One kind of GPU."""

    memory: float = Field(gt=0)
    """GB."""
    bf16: float = Field(gt=0)
    """Peak of dense products in bfloat16, teraflops."""
    fp32: float = Field(gt=0)
    """The same in float32."""


@cache
def known_gpus() -> dict[str, Gpu]:
    """All of them by name."""
    return {name: validated(Gpu, table, name) for name, table in parsed(FILE.read_bytes(), FILE.name).items()}


def find_gpu(name: str) -> Gpu:
    """A GPU by its name.

    >>> find_gpu("H100 80GB").memory
    80.0

    Raises:
        ValueError: It is not known here.
    """
    if name not in known_gpus():
        near, known = did_you_mean(name, known_gpus()), ", ".join(known_gpus())
        raise ValueError(f"{named('gpu')}: must be one that is known here ('{name}' given).{near} Known: {known}.")
    return known_gpus()[name]
