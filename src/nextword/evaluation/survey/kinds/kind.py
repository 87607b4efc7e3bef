"""What a kind of survey is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from nextword.evaluation.metrics import Sample
from nextword.evaluation.survey.survey_settings import SurveyConfig
from nextword.results.records import Measure
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

    def check_systems(self, names: Sequence[str]) -> None:
        """Raises ValueError where these systems cannot be judged in this way; here, any number can."""
        return

    @abstractmethod
    def drafts(
        self, prompts: Mapping[str, Mapping[str, Sample]], encode: Encode, rng: np.random.Generator
    ) -> tuple[list[DraftItem], list[str]]:
        """Items of a sample of the prompts, and notes on what was left out.

        Args:
            prompts: By id, what each system wrote.
            encode: Gives sentence vectors; loads a model when first called.
            rng: Source of all random choices.

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
    def scored(self, question: Question, answers: Judgements) -> list[AnswerMeasure]:
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


# -- Answers that count, and the numbers that they give each system.


@dataclass(frozen=True)
class Judgements:
    """Answers to one question that count, one row each."""

    values: list[str]
    writers: list[dict[str, str]]
    """By side, the system."""
    items: Int[np.ndarray, "N"]
    judges: Int[np.ndarray, "N"]


@dataclass(frozen=True)
class SystemAnswers:
    """What the answers say of one system: a number for each row that is about it."""

    values: Float[np.ndarray, "N"]
    items: Int[np.ndarray, "N"]
    judges: Int[np.ndarray, "N"]


@dataclass(frozen=True)
class AnswerMeasure:
    """One measure that the answers to a question give."""

    key: str
    measure: Measure
    systems: dict[str, SystemAnswers]
    tested: bool = True
    """Whether systems are compared in it."""


def numbers(answers: Judgements, side: str, number: Callable[[str], float]) -> dict[str, SystemAnswers]:
    """For each system that is on a side: the numbers of its answers."""
    systems = sorted({writers[side] for writers in answers.writers})
    found = {}
    for system in systems:
        rows = np.array([writers[side] == system for writers in answers.writers])
        values = np.array([number(value) for value in answers.values])[rows]
        found[system] = SystemAnswers(values, answers.items[rows], answers.judges[rows])
    return found


# -- Which sentences of a document a judge needs to see for a sentence of a summary.

Encode = Callable[[Sequence[str]], Float[np.ndarray, "N D"]]
"""Sentence vectors of texts."""

GAP = "[...]"
"""Stands for sentences that are left out."""


def most_similar(sentences: Sequence[str], document: Sequence[str], count: int, encode: Encode) -> list[list[int]]:
    """For each sentence, the places of the most similar ones of the document, in the document's order.

    Similarity is the cosine of sentence vectors. A document of no more than ``count`` sentences is taken whole, and
    nothing is encoded.
    """
    if len(document) <= count:
        return [list(range(len(document))) for _ in sentences]
    vectors = np.asarray(encode([*sentences, *document]), dtype=np.float64)
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = vectors[: len(sentences)] @ vectors[len(sentences) :].T
    return [sorted(np.argsort(-row, kind="stable")[:count].tolist()) for row in cosines]


def shown_document(document: Sequence[str], kept: Collection[int]) -> tuple[list[str], dict[int, int]]:
    """The lines that are shown, with a mark for each gap, and where each kept sentence stands among them.

    >>> shown_document(["a", "b", "c", "d"], {0, 2})
    (['a', '[...]', 'c', '[...]'], {0: 0, 2: 2})
    """
    lines: list[str] = []
    places = {}
    for place, sentence in enumerate(document):
        if place in kept:
            places[place] = len(lines)
            lines.append(sentence)
        elif not lines or lines[-1] != GAP:
            lines.append(GAP)
    return lines, places
