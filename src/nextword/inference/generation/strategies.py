"""Decoding strategies: greedy search, sampling and beam search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from pydantic import Field, model_validator

from nextword.settings.config import Settings
from nextword.settings.old_modules import old_names
from nextword.settings.registry import did_you_mean
from nextword.settings.specs import read_term


class Decoding(Settings):
    """A decoding strategy; without arguments, greedy search. The short form is a string such as "top-k:3,0.7".

    The number after a comma, or after "sample:", is the temperature.

    >>> Decoding.model_validate("top-k:3").title, Decoding.model_validate("sample:0.7").title
    ('top-k 3', 'sample, temperature 0.7')
    >>> Decoding.model_validate("beam:4"), Decoding().title
    (Decoding(sample=False, top_k=None, top_p=None, temperature=1.0, beams=4), 'greedy')
    """

    sample: bool = False
    """Sample from the whole distribution."""
    top_k: int | None = Field(default=None, ge=1)
    """Sample from the ``top_k`` most probable tokens."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Sample from the smallest set of most probable tokens whose probabilities sum to at least ``top_p``."""
    temperature: float = Field(default=1.0, gt=0)
    """Number that log-probabilities are divided by before sampling."""
    beams: int = Field(default=1, ge=1, le=1000)
    """Number of beams of beam search, which is deterministic; 1 is greedy search."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return _read(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if self.beams > 1 and self.is_sampled:
            raise ValueError(
                "beams: must be given without sample, top_k and top_p (both given), because beam search does not sample"
            )
        if self.temperature != 1 and not self.is_sampled:
            raise ValueError("temperature: has no effect without sampling; give sample, top_k or top_p too")
        return self

    @property
    def is_sampled(self) -> bool:
        """Whether tokens are sampled, so that texts depend on the seed."""
        return self.sample or self.top_k is not None or self.top_p is not None

    @property
    def title(self) -> str:
        """Name of the strategy in tables."""
        parts = [f"top-k {self.top_k}"] if self.top_k is not None else []
        parts += [f"top-p {self.top_p:g}"] if self.top_p is not None else []
        parts = parts or (["sample"] if self.is_sampled else [f"beam {self.beams}" if self.beams > 1 else "greedy"])
        return ", ".join([*parts, *([f"temperature {self.temperature:g}"] if self.temperature != 1 else [])])

    def arguments(self) -> dict[str, Any]:
        """The strategy as complete arguments of transformers' ``generate``."""
        if not self.is_sampled:
            return {"do_sample": False, "num_beams": self.beams}
        return {
            "do_sample": True,
            "num_beams": 1,
            "top_k": self.top_k or 0,
            "top_p": 1.0 if self.top_p is None else self.top_p,
            "temperature": self.temperature,
        }


def _temperature(value: str | None = None) -> dict[str, float]:
    return {} if value is None else {"temperature": float(value)}


_SHORT: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "greedy": ("greedy", lambda: {}),
    "sample": ("sample[:TEMPERATURE]", lambda *temperature: {"sample": True, **_temperature(*temperature)}),
    "top-k": ("top-k:K[,TEMPERATURE]", lambda k, *temperature: {"top_k": int(k), **_temperature(*temperature)}),
    "top-p": ("top-p:P[,TEMPERATURE]", lambda p, *temperature: {"top_p": float(p), **_temperature(*temperature)}),
    "beam": ("beam:BEAMS", lambda beams: {"beams": int(beams)}),
}
"""For each short form, its syntax and a function from its arguments to settings."""


def _read(text: str) -> dict[str, Any]:
    name, arguments = read_term(text.lower())
    forms = ", ".join(usage for usage, _ in _SHORT.values())
    if name not in _SHORT:
        raise ValueError(f"'{text}' is not a decoding.{did_you_mean(name, _SHORT)} Known: {forms}.")
    usage, read = _SHORT[name]
    try:
        return read(*arguments)
    except (TypeError, ValueError):  # too few or too many arguments, or arguments that are not numbers
        raise ValueError(f"'{text}' is not valid for {usage}") from None


__getattr__ = old_names(__name__)
