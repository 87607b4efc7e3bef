"""Settings that all kinds of survey have."""

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
    """Assumptions for the statement on statistical power, which says what difference the survey can detect."""

    spread: float | None = Field(default=None, gt=0, le=10)
    """Standard deviation of the difference that one judge sees between two systems on one item. None: the default of
    the kind of survey."""
    agreement: float = Field(default=0.3, ge=0, le=1)
    """Share of the variance ``spread``² that all judges of an item have in common. In HistAlign's human evaluations,
    the judges' agreement (Krippendorff's alpha) was 0.34 and 0.52."""
    power: float = Field(default=0.8, gt=0.05, lt=1)
    """Desired power: the share of surveys in which a true difference of the stated size gives a two-sided p < 0.05."""


class SurveyConfig(Settings):
    """Settings of a survey of any kind."""

    typical_spread: ClassVar[float] = 1.0
    """Default of ``power.spread``, a standard deviation."""

    items: int = Field(default=100, ge=2, le=10_000)
    """Number of prompts that are judged. The seed selects them."""
    judges: int = Field(default=3, ge=1, le=100)
    """Number of judges per item."""
    items_per_form: int = Field(default=20, ge=1, le=1000)
    """Maximum number of items per form, without checks. A form is for one judge."""
    seed: Seed = 0
    """Seed of all random choices: prompts, sides, orders, checks."""
    checks: int = Field(default=2, ge=0, le=50)
    """Number of attention checks per form (items that ask for given answers)."""
    allowed_failures: int = Field(default=0, ge=0, le=50)
    """Number of checks that a judge may fail. If a judge fails more checks, all answers of this judge are left out."""
    check_text: str = CHECK
    """Sentence that is added to an item's text to make a check. The requested answers replace {answers}."""
    title: str = "Judge texts"
    """Heading of the page."""
    consent: str = CONSENT
    """Consent text. A blank line separates paragraphs."""
    instructions: str = ""
    """Instructions for judges. A blank line separates paragraphs. Empty: the instructions of the kind of survey."""
    hand_back: str = "Send this file to the person who asked you."
    """Text on the last page about what to do with the answer file."""
    completion_url: str = ""
    """Link on the last page, such as the completion link of a Prolific study."""
    page_url: str = "https://example.org/page.html"
    """Address where page.html will be published. The Prolific links contain it."""
    power: PowerConfig = PowerConfig()
    """Assumptions for the survey's statement on statistical power."""

    @model_validator(mode="after")
    def _addresses_are_of_the_web(self) -> Self:
        for name, address in (("completion_url", self.completion_url), ("page_url", self.page_url)):
            if address != type(self).model_fields[name].default and not re.fullmatch(r"https?://\S+", address):
                raise ValueError(f"{name}: must be a web address ({address!r} given); begin with https://")
        return self

    @model_validator(mode="after")
    def _check_says_what_to_answer(self) -> Self:
        if "{answers}" not in self.check_text:
            raise ValueError(f"check_text: must have {{answers}} in it ({self.check_text!r} given); put it where "
                             f"the requested answers go")  # fmt: skip
        return self
