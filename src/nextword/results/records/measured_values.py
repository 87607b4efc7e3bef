"""One measured number, and what a number of its kind means."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from nextword.runtime.files import Record

Goal = Literal["higher", "lower", "human"]
"""Which way is good; "human": as close as possible to what the human texts measure."""


class MetricValue(Record):
    """One measured number, with its unit, how many cases it comes from and its interval."""

    value: float
    """The number itself; finite (a record with a value that is not is refused, naming what was measured)."""
    unit: str
    """What one of it is, for example "fraction", "nats per token", "bits per byte", "count"."""
    n: int = Field(ge=0)
    """How many cases (prompts, tokens, bytes, rows) the value was measured on."""
    low: float | None = None
    """Lower end of the 95 % interval; None where none was estimated."""
    high: float | None = None
    """Upper end of the 95 % interval; None where none was estimated."""
    note: str | None = None
    """What a reader must know of this one value, for example how many texts are empty and count as wrong."""

    @model_validator(mode="after")
    def _interval_is_one(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError(f"interval: must have both ends or none (low={self.low}, high={self.high} given)")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"interval: low must not be above high (low={self.low}, high={self.high} given)")
        return self


class Measure(Record):
    """What a number means: how a report names, groups and judges it."""

    title: str
    """Its heading, for example "Self-BLEU-3"."""
    group: str
    """Heading over the measures that belong together, one of ``nextword.evaluation.metrics.parts.groups``."""
    unit: str
    """What one of it is, with every choice that a paper leaves open, for example "fraction of 4-grams"."""
    goal: Goal | None
    """Which way is good; None where neither is."""
    decimals: int | None = None
    """Digits after the point (of a percentage, where the unit is a fraction); None: four significant digits."""
    meaning: str
    """One sentence for a reader who does not know it."""
