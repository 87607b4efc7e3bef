"""``Metric``, the base class of metrics, which read samples one by one and then return scores."""

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
        """Accept a single value for a setting that is a list."""
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
    """Raised if a metric is not defined for the samples. For example, a single text has no Self-BLEU."""


def silent(stage: str, done: int, total: int) -> None:
    """A progress function that does nothing. Unlike a lambda, it can be pickled."""


@dataclass(frozen=True)
class Setup:
    """Arguments of every metric besides its settings: unit of tokens, cache folder, device, batch size and progress."""

    unit: Unit = field(default_factory=Words)
    """Unit by which texts are split into tokens."""
    cache: Path | None = None
    """Folder for stored model outputs. None: they are not stored."""
    device: str = "cpu"
    """Device of the models that a metric runs."""
    batch_size: int = 32
    """Texts per forward pass of a metric's model."""
    progress: Callable[[str, int, int], None] = silent
    """Progress function of long computations: of a stage's name, its number of finished items and of all items."""


@dataclass(frozen=True)
class Score:
    """One value of a metric."""

    measure: Measure
    """Name, unit and direction of the value."""
    value: float
    """The value, in ``measure.unit``."""
    n: int
    """Number of cases (texts, tokens, bytes) from which the value was computed."""
    statistic: Statistic | None = None
    """The value as a function of sums over samples, with each sample's contribution in order, for intervals and tests.
    None if the value is not such a function."""
    note: str | None = None
    """Note for the reader, for example how many texts are empty and count as wrong."""

    @classmethod
    def of(cls, measure: Measure, statistic: Statistic, n: int, note: str | None = None) -> Score:
        """Make the score with the value of ``statistic``.

        Raises:
            UndefinedError: If the value is NaN, because no sample has a value.
        """
        value = statistic.value
        if value != value:
            raise UndefinedError(f"{measure.title}: no sample has a value")
        return cls(measure, value, n, statistic, note)

    @classmethod
    def ratio(cls, measure: Measure, sums: Numbers, counts: Numbers, transform: Transform = np.asarray) -> Score:
        """Make the score with the value ``transform(sum(sums) / sum(counts))``. Its ``n`` is ``sum(counts)``.

        Raises:
            UndefinedError: If the counts sum to 0.
        """
        return cls.of(measure, Statistic.ratio(sums, counts, transform), int(np.sum(counts)))

    @classmethod
    def mean(cls, measure: Measure, values: Float[np.ndarray, "N"], note: str | None = None) -> Score:
        """Make the score that is the mean of ``values``, one per sample. Samples without a value (NaN) are left out.

        Raises:
            UndefinedError: If no sample has a value.
        """
        return cls.of(measure, Statistic.mean(values), int((~np.isnan(values)).sum()), note)


class Metric(ABC):
    """Base class of metrics. A metric reads the samples of one file once, in order, and keeps only what it needs."""

    Config: ClassVar[type[MetricConfig]]
    needs: ClassVar[tuple[str, ...]]
    """Fields that a sample must have. "tokens" means ``token_ids`` or ``text``; "prompt_tokens" means
    ``prompt_token_ids`` or ``prompt``; "reference_tokens" means ``reference_token_ids`` or ``references``;
    "predictions" means ``target_ranks`` or ``predicted_token_ids``."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Modules of optional dependencies, all of which the metric needs."""
    scores_people: ClassVar[bool] = True
    """Whether the metric can be computed for human references. False for metrics of a model's predictions."""
    votes: ClassVar[tuple[str, ...]] = ()
    """Keys of ``result`` by which systems are ranked. If ``result`` has none of them: its first key."""
    group: ClassVar[str]
    """Heading over the metric's values in tables, such as ``DIVERSITY``. The method ``measure`` puts ``group``,
    ``goal`` and ``decimals`` into the descriptions of values."""
    goal: ClassVar[Goal | None] = None
    """Which values are better by default: "higher" or "lower" ones, or those near the human value ("human"); None:
    unknown."""
    decimals: ClassVar[int | None] = None
    """Default number of decimal places in reports. None: four significant digits."""

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        self.config: Any = config
        self.setup = setup

    @classmethod
    def on_request(cls) -> str | None:
        """Reason why ``metrics="all"`` leaves this metric out, for instance a large model. None: it is not left out."""
        return None

    def measure(
        self, title: str, unit: str, meaning: str, goal: Goal | None = None, decimals: int | None = None
    ) -> Measure:
        """Describe one of the metric's values. ``goal`` and ``decimals`` default to those of the class."""
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
        """Read one sample.

        Raises:
            MissingFieldError: If the sample lacks a field. The message names the file, the line and the field.
        """

    @abstractmethod
    def result(self) -> dict[str, Score]:
        """A mapping from key (lower case, for example "self-bleu-3") to score, in the order of the report.

        Raises:
            UndefinedError: If the metric is not defined for the samples.
        """


class OfAllTexts(Metric):
    """Base class of metrics that need all generated texts at once. It keeps the tokens of all texts."""

    needs = ("tokens",)

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._tokens: list[Int[np.ndarray, "T"]] = []

    def add(self, sample: Sample) -> None:
        """Reads the generated text."""
        self._tokens.append(sample.tokens)

    def texts(self) -> TokenTexts:
        """The tokens of all texts read so far."""
        return TokenTexts.of(self._tokens)


registry: Registry[type[Metric]] = Registry("metric", Metric, also="nextword.evaluation.judges")


def metric_of(measure: str) -> str | None:
    """Name of the metric whose result has the key ``measure``, such as ``rouge`` for ``rouge-l``. None if unknown."""
    owners = [known for known in registry.names() if measure in registry.get(known).votes]
    prefixes = [known for known in registry.names() if measure == known or measure.startswith(f"{known}-")]
    owners += sorted(prefixes, key=len, reverse=True)  # bleu-logicnlg-1 is of bleu-logicnlg, not of bleu
    return owners[0] if owners else None


class _MetricGrammar(Grammar[MetricConfig]):
    """Parser of metric specs. Messages name the metric, because several metrics may be given at once."""

    def place(self, name: str) -> str:
        return name

    def expect_known(self, name: str) -> None:
        if name not in registry and (owner := metric_of(name)) is not None:
            raise ValueError(
                f"unknown metric '{name}': this value is computed by the metric '{owner}'; give --metrics {owner}"
            )
        super().expect_known(name)


grammar = _MetricGrammar(registry, MetricConfig, "distinct")


def parse_metric(spec: str | Mapping[str, Any] | MetricConfig) -> MetricConfig:
    """Return the config for a spec such as ``self-bleu:2,3`` or a mapping of settings. A config is returned unchanged.

    Raises:
        ValueError: If the name is unknown (the message suggests the nearest name) or the settings are not valid.
    """
    return grammar.parse(spec)


Order = Annotated[int, Field(ge=1, le=LONGEST)]
"""Length n of n-grams."""


class NumbersConfig(MetricConfig):
    """Settings of a metric whose spec is a list of whole numbers."""

    numbers: ClassVar[str]
    """Name of the setting that the numbers in the spec set."""
    meaning: ClassVar[str]
    """What these numbers are called in error messages."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parse the arguments of a spec: ``distinct:1,2`` sets ``n`` to (1, 2)."""
        if not all(argument.isdigit() and int(argument) > 0 for argument in arguments):
            raise ValueError(f"{cls.meaning} must be whole numbers of 1 or more ({','.join(arguments)!r} given)")
        return {cls.numbers: tuple(map(int, arguments))} if arguments else {}

    def arguments(self) -> list[str]:
        """The numbers, as the arguments of a spec."""
        return [str(number) for number in getattr(self, self.numbers) or ()]


class OrdersConfig(NumbersConfig):
    """Settings of a metric over n-grams."""

    numbers = "n"
    meaning = "lengths of n-grams"

    n: tuple[Order, ...] = Field(min_length=1)
    """Lengths n of the n-grams."""


# -- Headings over metrics that belong together, in the order of the report.

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
