"""Metrics that count how many texts a classifier takes to follow from what they were written about."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nextword.judges.classifier import Answers, Classifier, Form, Question, TextPair
from nextword.metrics import Metric, MetricConfig, Sample, Score, Setup, groups
from nextword.records import Measure


class ClassifierConfig(MetricConfig):
    """Settings of a metric that asks a classifier."""

    model: str | None = None
    """Folder or hub name of the classifier."""
    label: str | int | None = None
    """The output that means "consistent", by name or number; None to find it by its name."""
    max_length: int = Field(default=512, ge=8)
    """Tokens of a question, evidence and claim together; fewer where the model has a lower limit."""


class Entailment(Metric):
    """Asks a classifier about every text, in one question or several.

    A text is consistent if the answer to each of its questions is; a text without a question (an empty one, for
    example) has no value and does not count.
    """

    title: ClassVar[str]
    """Heading."""
    asks: ClassVar[str]
    """What is asked, for the reader of a report: "the classifier {asks}"."""
    group: ClassVar[str] = groups.FAITHFULNESS
    nameless_label: ClassVar[int | None] = None
    """The output that means "consistent" in checkpoints whose outputs have no names."""

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._classifier = Classifier(
            self.config.model,
            self.config.label,
            self.config.max_length,
            self.form(),
            setup,
            metric=self.config.metric,
            default_label=self.nameless_label,
        )
        self._questions: list[list[Question]] = []

    @classmethod
    def on_request(cls) -> str | None:
        """It asks a classifier that must be named."""
        return "asks a classifier (its setting model): name it to have it measured"

    @abstractmethod
    def questions(self, sample: Sample) -> list[Question]:
        """What the classifier is asked about a sample; empty where there is nothing to ask.

        Raises:
            MissingFieldError: The sample lacks a field.
        """

    def form(self) -> Form:
        """How a question is written down for the model."""
        return TextPair()

    def add(self, sample: Sample) -> None:
        """Reads evidence and text."""
        self._questions.append(self.questions(sample))

    def result(self) -> dict[str, Score]:
        """The share of consistent texts, and the mean probability (of the least probable claim of each text)."""
        name = self.config.metric
        answers = self.answers()
        return {
            name: self.score(self._share(), [float(one.chosen.all()) if one else np.nan for one in answers]),
            f"{name}-probability": self.score(
                self._probability(), [float(one.probabilities.min()) if one else np.nan for one in answers]
            ),
        }

    def answers(self) -> list[Answers | None]:
        """For each sample the answers to its questions; None where nothing was asked."""
        flat = [question for questions in self._questions for question in questions]
        if not flat:
            return [None for _ in self._questions]
        found = self._classifier.ask(flat)
        ends = np.cumsum([len(questions) for questions in self._questions])
        chosen, probabilities = np.split(found.chosen, ends[:-1]), np.split(found.probabilities, ends[:-1])
        return [
            Answers(probabilities=some, chosen=picked) if len(picked) else None
            for picked, some in zip(chosen, probabilities, strict=True)
        ]

    def score(self, measure: Measure, values: Any) -> Score:
        """The mean of a value a sample; NaN does not count."""
        known: Float[np.ndarray, "N"] = np.asarray(values, dtype=np.float64)
        return Score.mean(measure, known)

    def described(self) -> str:
        """Model, output and length, for a report."""
        return f"{self._classifier.name}, output '{self._classifier.label}', at most {self.config.max_length} tokens"

    def _share(self) -> Measure:
        return Measure(
            title=self.title,
            group=self.group,
            unit="fraction of texts",
            goal="higher",
            decimals=2,
            meaning=f"{self.title}: share of texts of which the classifier ({self.described()}) {self.asks}.",
        )

    def _probability(self) -> Measure:
        return Measure(
            title=f"{self.title}, probability",
            group=self.group,
            unit="probability",
            goal="higher",
            decimals=3,
            meaning=f"{self.title}: mean probability with which the classifier ({self.described()}) {self.asks}.",
        )
