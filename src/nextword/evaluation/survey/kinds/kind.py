"""The base class of kinds of survey."""

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
"""Name of the only side of a unit that has one text."""


@dataclass(frozen=True)
class DraftUnit:
    """A unit: the texts that one answer is about, and the indices of the document lines to show near them."""

    texts: list[Passage]
    near: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class DraftGroup:
    """Units under one heading. ``writers`` maps each side ("a" and "b", or ``ONE_TEXT``) to the system of its text."""

    writers: dict[str, str]
    units: list[DraftUnit]


@dataclass(frozen=True)
class DraftItem:
    """An item: a page about one prompt for a judge, with passages to read and groups of units to judge."""

    prompt: str
    passages: list[Passage]
    groups: list[DraftGroup]
    """The groups, in the order of the systems."""


class Kind(ABC):
    """Base class of kinds of survey. A kind makes the items and questions, and computes values from the answers."""

    Config: ClassVar[type[SurveyConfig]] = SurveyConfig
    group_title: ClassVar[str] = ""
    """Name of a group, which is shown before the group's number. Empty if a page has only one group."""
    instructions: ClassVar[str]
    difference: ClassVar[str]
    """Unit of a difference between two systems, for the statement on statistical power."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def check_systems(self, names: Sequence[str]) -> None:
        """Raise ValueError if this kind of survey cannot judge the systems ``names``. By default, it can judge any."""
        return

    @abstractmethod
    def drafts(
        self, prompts: Mapping[str, Mapping[str, Sample]], encode: Encode, rng: np.random.Generator
    ) -> tuple[list[DraftItem], list[str]]:
        """Return items for some of the prompts, selected by ``draw``, and notes on prompts that cannot be used.

        Args:
            prompts: Mapping from prompt id to a mapping from system to its sample.
            encode: Function from texts to sentence vectors. It loads a model when it is first called.
            rng: Random generator for all choices.

        Raises:
            ValueError: If a field is missing, or there are too few prompts.
        """

    @abstractmethod
    def questions(self) -> list[Question]:
        """The questions about every unit."""

    def known(self) -> list[tuple[DraftItem, dict[str, str]]]:
        """Items that every judge gets first, each with a mapping from question to correct answer. By default, none."""
        return []

    def marking(self) -> Marking | None:
        """The task of marking words in a text after a certain answer. By default there is none."""
        return None

    @abstractmethod
    def scored(self, question: Question, answers: Judgements) -> list[AnswerMeasure]:
        """Compute measures from the ``answers`` to ``question``. Each has the answers about every system as numbers."""

    def draw(self, prompts: Sequence[str], rng: np.random.Generator, found: str) -> list[str]:
        """Select as many of ``prompts`` as the survey has items, at random. ``found`` describes ``prompts`` in errors.

        Raises:
            ValueError: If there are too few prompts.
        """
        if len(prompts) < self.config.items:
            raise ValueError(
                f"items: must be at most {len(prompts)}, {found} ({self.config.items} given); give more texts or "
                f"{named('items', len(prompts))}"
            )
        return [prompts[place] for place in rng.permutation(len(prompts))[: self.config.items]]


registry = Registry[type[Kind]]("survey kind", Kind)
"""Registry of kinds of survey."""


# -- Valid answers, and the numbers that they give for each system.


@dataclass(frozen=True)
class Judgements:
    """N valid answers to one question, each with the systems of the judged texts, the item and the judge."""

    values: list[str]
    writers: list[dict[str, str]]
    """System of each side."""
    items: Int[np.ndarray, "N"]
    judges: Int[np.ndarray, "N"]


@dataclass(frozen=True)
class SystemAnswers:
    """N answers about one system, converted to numbers (``values``), each with its item and its judge."""

    values: Float[np.ndarray, "N"]
    items: Int[np.ndarray, "N"]
    judges: Int[np.ndarray, "N"]


@dataclass(frozen=True)
class AnswerMeasure:
    """A measure computed from the answers to a question. ``systems`` maps each system to the answers about it."""

    key: str
    measure: Measure
    systems: dict[str, SystemAnswers]
    tested: bool = True
    """Whether systems are compared by this measure."""


def numbers(answers: Judgements, side: str, number: Callable[[str], float]) -> dict[str, SystemAnswers]:
    """A mapping from system to the ``answers`` about its texts on ``side``, each converted with ``number``."""
    systems = sorted({writers[side] for writers in answers.writers})
    found = {}
    for system in systems:
        rows = np.array([writers[side] == system for writers in answers.writers])
        values = np.array([number(value) for value in answers.values])[rows]
        found[system] = SystemAnswers(values, answers.items[rows], answers.judges[rows])
    return found


# -- The sentences of a document that a judge needs for a sentence of a summary.

Encode = Callable[[Sequence[str]], Float[np.ndarray, "N D"]]
"""Function from texts to sentence vectors."""

GAP = "[...]"
"""Text that marks sentences that were left out."""


def most_similar(sentences: Sequence[str], document: Sequence[str], count: int, encode: Encode) -> list[list[int]]:
    """For each of ``sentences``, the indices of the ``count`` most similar sentences of ``document``, ascending.

    Similarity is the cosine of sentence vectors. A document of at most ``count`` sentences is used as a whole, and
    nothing is encoded.
    """
    if len(document) <= count:
        return [list(range(len(document))) for _ in sentences]
    vectors = np.asarray(encode([*sentences, *document]), dtype=np.float64)
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = vectors[: len(sentences)] @ vectors[len(sentences) :].T
    return [sorted(np.argsort(-row, kind="stable")[:count].tolist()) for row in cosines]


def shown_document(document: Sequence[str], kept: Collection[int]) -> tuple[list[str], dict[int, int]]:
    """The sentences of ``document`` with indices in ``kept``, with ``GAP`` for each run of other sentences.

    The second result maps the index of a kept sentence in ``document`` to its index in the first result.

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
