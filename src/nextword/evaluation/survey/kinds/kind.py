"""What a kind of survey is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nextword.evaluation.metrics import Sample
from nextword.evaluation.survey.judgements import Judgements, Scored
from nextword.evaluation.survey.similar_sentences import Encode
from nextword.evaluation.survey.survey_settings import SurveyConfig
from nextword.results.records.survey_files import Marking, Passage, Question
from nextword.settings.registry import Registry
from nextword.settings.setting_names import named

ONE_TEXT = "text"
"""Name of the side where a unit has a single text."""


@dataclass(frozen=True)
class DraftUnit:
    """A unit before its writers are hidden."""

    texts: list[Passage]
    near: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class DraftGroup:
    """Units of one text, with who wrote each side."""

    writers: dict[str, str]
    units: list[DraftUnit]


@dataclass(frozen=True)
class DraftItem:
    """An item before its writers are hidden."""

    prompt: str
    passages: list[Passage]
    groups: list[DraftGroup]
    """In the order of the systems."""


class Kind(ABC):
    """A kind of survey."""

    Config: ClassVar[type[SurveyConfig]] = SurveyConfig
    group_title: ClassVar[str] = ""
    """What each text is called, before its number; empty where a page has one group."""
    instructions: ClassVar[str]
    difference: ClassVar[str]
    """What a difference is measured in, for the statement of power."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def check_systems(self, names: Sequence[str]) -> None:
        """Raises ValueError where so many systems cannot be judged in this way."""

    @abstractmethod
    def drafts(
        self, prompts: Mapping[str, Mapping[str, Sample]], encode: Encode, rng: np.random.Generator
    ) -> tuple[list[DraftItem], list[str]]:
        """Items of a sample of the prompts, and notes on what was left out.

        Args:
            prompts: By id, what each system wrote.
            encode: Gives sentence vectors; loads a model when first called.
            rng: Of all draws.

        Raises:
            ValueError: A field is missing, or there are too few prompts.
        """

    @abstractmethod
    def questions(self) -> list[Question]:
        """What is asked about every unit."""

    def known(self) -> list[tuple[DraftItem, dict[str, str]]]:
        """Items that every judge gets first, with their right answers; none."""
        return []

    def marking(self) -> Marking | None:
        """Words to be marked; none."""
        return None

    @abstractmethod
    def scored(self, question: Question, answers: Judgements) -> list[Scored]:
        """What the answers to a question say of each system."""

    def draw(self, prompts: Sequence[str], rng: np.random.Generator, found: str) -> list[str]:
        """As many prompts as there are to be items.

        Raises:
            ValueError: There are not so many.
        """
        if len(prompts) < self.config.items:
            raise ValueError(
                f"items: must be at most {len(prompts)}, {found} ({self.config.items} given); give more texts or "
                f"{named('items', len(prompts))}"
            )
        return [prompts[place] for place in rng.permutation(len(prompts))[: self.config.items]]


registry = Registry[type[Kind]]("survey kind", Kind)
"""Kinds by name."""
