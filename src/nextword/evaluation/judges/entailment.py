"""Metrics that count how many texts a classifier takes to follow from what they were written about."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from nextword.evaluation.judges.checkpoints import is_blank, note_on_empty
from nextword.evaluation.judges.classifier import (
    Classifier,
    ClassifierAnswers,
    ClassifierConfig,
    Evidence,
    InputForm,
    Question,
)
from nextword.evaluation.judges.tables import READERS, Cells, is_empty, note_on_cells
from nextword.evaluation.metrics import Metric, MetricConfig, Sample, Score, Setup, Table, metric
from nextword.results.records import Measure


class TableConfig(ClassifierConfig):
    """Settings of a metric that asks a classifier about tables."""

    cells: Cells = "text"
    """How cells are read: "text", as they stand in the sample, or "pandas", as the scripts of LogicNLG and PLOG do."""


class Entailment(Metric):
    """Asks a classifier about every text, in one claim or several.

    A text is consistent if every claim of it is. An empty text is wrong, since a system that writes nothing would be
    the best one otherwise. A text has no value where there is no evidence, or where it claims nothing that is asked
    about.
    """

    title: ClassVar[str]
    """Heading."""
    asks: ClassVar[str]
    """What is asked, for the reader of a report: "the classifier {asks}"."""
    group, goal, decimals = metric.FAITHFULNESS, "higher", 2
    nameless_label: ClassVar[int | None] = None
    """The output that means "consistent" in checkpoints whose outputs have no names."""

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._classifier = Classifier(self.config, self.form(), setup, self.nameless_label)
        self._questions: list[list[Question]] = []
        self._empty: list[bool] = []

    @classmethod
    def on_request(cls) -> str | None:
        """It asks a classifier that must be named."""
        return "asks a classifier (its setting model): name it to have it measured"

    @abstractmethod
    def evidence(self, sample: Sample) -> Evidence:
        """What the text was written about.

        Raises:
            MissingFieldError: The sample lacks a field.
        """

    def claims(self, text: str) -> list[str]:
        """What is asked about, of a text that is not empty."""
        return [text]

    def form(self) -> InputForm:
        """How a question is written down for the model."""
        return InputForm()

    def add(self, sample: Sample) -> None:
        """Reads evidence and text."""
        evidence, text = self.evidence(sample), sample.need("text", self.config.metric)
        given = not (is_empty(evidence) if isinstance(evidence, Table) else is_blank(evidence))
        self._empty.append(given and is_blank(text))
        asked = self.claims(text) if given and not is_blank(text) else []
        self._questions.append([(evidence, claim) for claim in asked])

    def result(self) -> dict[str, Score]:
        """The share of consistent texts, and the mean probability (of the least probable claim of each text)."""
        name, answers = self.config.metric, self.answers()
        share = self.measure(
            self.title,
            "fraction of texts",
            f"{self.title}: share of texts of which the classifier ({self.described()}) {self.asks}; an empty text "
            "counts as wrong.",
        )
        probability = self.measure(
            f"{self.title}, probability",
            "probability",
            f"{self.title}: mean probability with which the classifier ({self.described()}) {self.asks}; 0 for an "
            "empty text.",
            decimals=3,
        )
        least = [float(one.probabilities.min()) if one else None for one in answers]
        return {
            name: self.score(share, [float(one.chosen.all()) if one else None for one in answers]),
            f"{name}-probability": self.score(probability, least),
        }

    def answers(self) -> list[ClassifierAnswers | None]:
        """For each sample the answers to its questions; None where nothing was asked."""
        flat = [question for questions in self._questions for question in questions]
        if not flat:
            return [None for _ in self._questions]
        found = self._classifier.ask(flat)
        ends = np.cumsum([len(questions) for questions in self._questions])
        chosen, probabilities = np.split(found.chosen, ends[:-1]), np.split(found.probabilities, ends[:-1])
        return [
            ClassifierAnswers(probabilities=some, chosen=picked) if len(picked) else None
            for picked, some in zip(chosen, probabilities, strict=True)
        ]

    def score(self, measure: Measure, values: Sequence[float | None], empty: float = 0.0) -> Score:
        """The mean of a value a sample; None does not count, and an empty text has the value ``empty``."""
        known: Float[np.ndarray, "N"] = np.array([np.nan if one is None else one for one in values], dtype=np.float64)
        blank: Bool[np.ndarray, "N"] = np.array(self._empty, dtype=bool)
        known[blank] = empty
        return Score.mean(measure, known, note_on_empty(self._empty))

    def described(self) -> str:
        """Model, output and length, for a report."""
        return f"{self._classifier.name}, output '{self._classifier.label}', at most {self.config.max_length} tokens"


class TableEntailment(Entailment):
    """Asks whether a text follows from its table."""

    needs = ("table", "text")
    asks = "says that they follow from the table"

    def evidence(self, sample: Sample) -> Table:
        """The table."""
        return READERS[self.config.cells](sample.need("table", self.config.metric))

    def described(self) -> str:
        """Model, output, length, and how cells are read where not as they stand."""
        return f"{super().described()}{note_on_cells(self.config.cells)}"
