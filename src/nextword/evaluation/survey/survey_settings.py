"""What a survey is to be: the fields of its recipe that every kind has."""

from __future__ import annotations

import re
from typing import ClassVar, Self

from pydantic import Field, model_validator

from nextword.settings.config import Seed, Settings

CONSENT = (
    "Taking part is voluntary, and you may stop at any time by closing this page.\n\n"
    "Your answers, the time on each page and the name or number that you enter are kept for research. Some of the "
    "texts were written by computers and may be wrong or unpleasant."
)

CHECK = "This sentence checks that the texts are read: please answer {answers} here."


class PowerConfig(Settings):
    """What is assumed when the survey says which differences it can show."""

    spread: float | None = Field(default=None, gt=0, le=10)
    """Standard deviation of one judge's difference between two systems on one item. Default: by kind."""
    agreement: float = Field(default=0.3, ge=0, le=1)
    """Share of that variance which judges have in common. The human evaluations of HistAlign had alphas of 0.34 and
    0.52."""
    power: float = Field(default=0.8, gt=0.05, lt=1)
    """Share of such surveys that are to find the difference at p < 0.05, two-sided."""


class SurveyConfig(Settings):
    """A survey of any kind."""

    typical_spread: ClassVar[float] = 1.0
    """Spread that ``power`` assumes."""

    items: int = Field(default=100, ge=2, le=10_000)
    """Prompts that are judged, drawn by the seed."""
    judges: int = Field(default=3, ge=1, le=100)
    """Judges of each item."""
    items_per_form: int = Field(default=20, ge=1, le=1000)
    """Items that one judge is given, without checks."""
    seed: Seed = 0
    """Seed of every random choice: prompts, sides, orders, checks."""
    checks: int = Field(default=2, ge=0, le=50)
    """Attention checks in each form."""
    allowed_failures: int = Field(default=0, ge=0, le=50)
    """Checks that a judge may answer wrongly and still count."""
    check_text: str = CHECK
    """Sentence that makes an item a check, with {answers} for what to answer."""
    title: str = "Judge texts"
    """Heading of the page."""
    consent: str = CONSENT
    """What a judge agrees to; a blank line separates paragraphs."""
    instructions: str = ""
    """How to judge; a blank line separates paragraphs. Default: those of the kind."""
    hand_back: str = "Send this file to the person who asked you."
    """What the last page says about the file."""
    completion_url: str = ""
    """Address that the last page leads to, such as the completion address of a Prolific study."""
    page_url: str = "https://example.org/page.html"
    """Where page.html will lie; the Prolific links lead there."""
    power: PowerConfig = PowerConfig()
    """Assumptions about answers."""

    @model_validator(mode="after")
    def _addresses_are_of_the_web(self) -> Self:
        for name, address in (("completion_url", self.completion_url), ("page_url", self.page_url)):
            if address != type(self).model_fields[name].default and not re.fullmatch(r"https?://\S+", address):
                raise ValueError(f"{name}: must be an address of the web ({address!r} given); begin with https://")
        return self

    @model_validator(mode="after")
    def _check_says_what_to_answer(self) -> Self:
        if "{answers}" not in self.check_text:
            raise ValueError(f"check_text: must have {{answers}} in it ({self.check_text!r} given); put it where the "
                             "right answers are to stand")  # fmt: skip
        return self
