"""The contract of a metric: it reads samples one after another and then says what it measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field, model_validator

from nextword.evaluation.metrics.ngrams import LONGEST, TokenTexts
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.statistics import Numbers, Statistic, Transform
from nextword.evaluation.metrics.tokens import Unit, Words
from nextword.results.records import Goal, Measure
from nextword.settings.registry import Registry
from nextword.settings.specs import Grammar, SpecSettings


class MetricConfig(SpecSettings):
    """Settings that every metric has."""

    metric: str
    """Registered name of the metric."""

    @model_validator(mode="before")
    @classmethod
    def _one_is_a_list(cls, values: Any) -> Any:
        """A setting that is a list may be given as its only entry."""
        if not isinstance(values, dict):
            return values
        lists = {name for name, field in cls.model_fields.items() if "tuple[" in str(field.annotation)}
        entries = {
            name: tuple(value) if isinstance(value, list) else (value,)
            for name, value in values.items()
            if name in lists and isinstance(value, list | str | int | float)
        }
        return {**values, **entries}


class UndefinedError(ValueError):
    """These samples have no such value, for example the Self-BLEU of a single text; the message says why."""


def silent(stage: str, done: int, total: int) -> None:
    """Tells nobody how far something is; can be sent to another process."""


@dataclass(frozen=True)
class Setup:
    """What a metric is given besides the samples."""

    unit: Unit = field(default_factory=Words)
    """How texts are cut into tokens."""
    cache: Path | None = None
    """Folder in which features are kept, beside the samples; None: nowhere."""
    device: str = "cpu"
    """Where models that a metric asks are run."""
    batch_size: int = 32
    """Texts that such a model sees at once."""
    progress: Callable[[str, int, int], None] = silent
    """Receives the progress of a long computation: a name, how many are done, of how many."""


@dataclass(frozen=True)
class Score:
    """One measured value."""

    measure: Measure
    """What it is."""
    value: float
    """In ``measure.unit``."""
    n: int
    """How many cases (texts, tokens, bytes) it comes from."""
    statistic: Statistic | None = None
    """What each sample, in order, adds to it, for intervals and tests; None for what does not fall into samples."""
    note: str | None = None
    """What a reader must know of this one value, for example how many texts are empty and count as wrong."""

    @classmethod
    def of(cls, measure: Measure, statistic: Statistic, n: int, note: str | None = None) -> Score:
        """The value of a statistic.

        Raises:
            UndefinedError: It is not a number: no sample has one.
        """
        value = statistic.value
        if value != value:
            raise UndefinedError(f"{measure.title}: no sample has a value")
        return cls(measure, value, n, statistic, note)

    @classmethod
    def ratio(cls, measure: Measure, sums: Numbers, counts: Numbers, transform: Transform = np.asarray) -> Score:
        """``transform(sum of sums / sum of counts)``, of as many cases as the counts add up to.

        Raises:
            UndefinedError: They add up to 0.
        """
        return cls.of(measure, Statistic.ratio(sums, counts, transform), int(np.sum(counts)))

    @classmethod
    def mean(cls, measure: Measure, values: Float[np.ndarray, "N"], note: str | None = None) -> Score:
        """The mean of a value a sample; a NaN stands for a sample without one, which counts neither there nor in ``n``.

        Raises:
            UndefinedError: No sample has a value.
        """
        return cls.of(measure, Statistic.mean(values), int((~np.isnan(values)).sum()), note)


class Metric(ABC):
    """Reads the samples of one system once, in order, and keeps no more of them than its definition asks for."""

    Config: ClassVar[type[MetricConfig]]
    needs: ClassVar[tuple[str, ...]]
    """Fields of a sample without which there is nothing to measure; "tokens" stands for ``token_ids`` or ``text``,
    "reference_tokens" and "prompt_tokens" alike, "predictions" for ``target_ranks`` or ``predicted_token_ids``."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Modules that must be importable and are not installed with the library itself."""
    scores_people: ClassVar[bool] = True
    """Whether the human row has it; not where people would be asked what they predict."""
    votes: ClassVar[tuple[str, ...]] = ()
    """Keys of ``result`` that count in a table of wins, if they are there; none: the first key."""
    group: ClassVar[str]
    """Heading over its measures, such as ``DIVERSITY``; this and the next two are what ``measure`` goes by."""
    goal: ClassVar[Goal | None] = None
    """Which way is good, unless a measure says otherwise."""
    decimals: ClassVar[int | None] = None
    """Digits after the point, unless a measure says otherwise."""

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        self.config: Any = config
        self.setup = setup

    @classmethod
    def on_request(cls) -> str | None:
        """Why this metric is measured only where it is named, for instance because it asks a large model; else None."""
        return None

    def measure(
        self, title: str, unit: str, meaning: str, goal: Goal | None = None, decimals: int | None = None
    ) -> Measure:
        """What one of its values is."""
        return Measure(
            title=title,
            group=self.group,
            unit=unit,
            goal=goal or self.goal,
            decimals=self.decimals if decimals is None else decimals,
            meaning=meaning,
        )

    @abstractmethod
    def add(self, sample: Sample) -> None:
        """Reads one sample.

        Raises:
            MissingFieldError: The sample lacks a field; the message names file, line and field.
        """

    @abstractmethod
    def result(self) -> dict[str, Score]:
        """What was measured, by key (lower case, for example "self-bleu-3"), in reading order.

        Raises:
            UndefinedError: The samples have no such value.
        """


class OfAllTexts(Metric):
    """A metric that counts over all written texts together, and keeps their tokens until then."""

    needs = ("tokens",)

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._tokens: list[Int[np.ndarray, "T"]] = []

    def add(self, sample: Sample) -> None:
        """Reads the written text."""
        self._tokens.append(sample.tokens)

    def texts(self) -> TokenTexts:
        """All texts so far."""
        return TokenTexts.of(self._tokens)


registry: Registry[type[Metric]] = Registry("metric", Metric, also="nextword.evaluation.judges")


def metric_of(measure: str) -> str | None:
    """The name of the metric that gives a measure, such as ``rouge`` for ``rouge-l``; None where none says so."""
    owners = [known for known in registry.names() if measure in registry.get(known).votes]
    owners += [known for known in registry.names() if measure == known or measure.startswith(f"{known}-")]
    return owners[0] if owners else None


class _MetricGrammar(Grammar[MetricConfig]):
    """Specs of metrics. Several are measured at once, so a message names the one whose setting it is about."""

    def place(self, name: str) -> str:
        return name

    def expect_known(self, name: str) -> None:
        if name not in registry and (owner := metric_of(name)) is not None:
            raise ValueError(f"unknown metric '{name}': it is measured by '{owner}'")
        super().expect_known(name)


grammar = _MetricGrammar(registry, MetricConfig, "distinct")


def parse_metric(spec: str | Mapping[str, Any] | MetricConfig) -> MetricConfig:
    """The typed config of a metric spec such as ``self-bleu:2,3``, of a config written out in full, or of a config.

    Raises:
        ValueError: An unknown name (with the nearest known one), or settings that do not fit.
    """
    return grammar.parse(spec)


Order = Annotated[int, Field(ge=1, le=LONGEST)]
"""A length n of n-grams."""


class NumbersConfig(MetricConfig):
    """Settings of a metric whose spec names whole numbers."""

    numbers: ClassVar[str]
    """The setting that they are."""
    meaning: ClassVar[str]
    """What they are called."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``distinct:1,2`` asks for n = 1 and n = 2."""
        if not all(argument.isdigit() and int(argument) > 0 for argument in arguments):
            raise ValueError(f"{cls.meaning} must be whole numbers from 1 ({','.join(arguments)!r} given)")
        return {cls.numbers: tuple(map(int, arguments))} if arguments else {}

    def arguments(self) -> list[str]:
        """The numbers."""
        return [str(number) for number in getattr(self, self.numbers) or ()]


class OrdersConfig(NumbersConfig):
    """Settings of a metric over n-grams."""

    numbers = "n"
    meaning = "lengths of n-grams"

    n: tuple[Order, ...] = Field(min_length=1)
    """The lengths n of the n-grams."""


# -- Headings over metrics that belong together, in reading order.

LIKELIHOOD = "Likelihood"
NEXT_WORD = "Next word"
REPETITION = "Repetition"
DIVERSITY = "Diversity"
FREQUENCY = "Frequency"
CLOSENESS = "Closeness to human text"
COHERENCE = "Coherence"
SUMMARY = "Summaries and tables"
FAITHFULNESS = "Faithfulness"
TOPICS = "Topics"

ORDER = (LIKELIHOOD, NEXT_WORD, CLOSENESS, DIVERSITY, REPETITION, FREQUENCY, COHERENCE, SUMMARY, FAITHFULNESS, TOPICS)
