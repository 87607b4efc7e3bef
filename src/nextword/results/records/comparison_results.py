"""Records of a comparison: measurements and cost of every method with every seed."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from nextword.results.records.evaluation_results import EvaluationResults
from nextword.results.records.measured_values import Environment, Measure, MetricValue
from nextword.runtime.files import Record, VersionedRecord, non_finite

WITH_PROMPT = ", with prompt"
"""Ending of a decoding's title if texts are generated after a prompt (tasks with and without prompts)."""


class Cost(Record):
    """Cost of a run."""

    parameters: int = Field(ge=0)
    """Number of parameters of the whole model. Shared weights count once."""
    trained_parameters: int = Field(ge=0)
    """Number of trained parameters, including adapters; 0 without training."""
    trained: dict[str, int] = Field(default={})
    """Number of trained parameters by module, for example {"backbone.transformer.ln_f": 1536, "conditioner": 7087872}.
    "all" means the whole model, and * stands for layer numbers. Empty in records of earlier versions."""
    ms_per_step: float | None = None
    """Median milliseconds per optimiser step, without warm-up steps; None if there were no other steps."""
    peak_memory_mib: float | None = None
    """Peak memory of tensors during training, in MiB; None if not measured."""
    train_seconds: float | None = None
    """Total seconds of training, including warm-up steps; None without training."""


class CurvePoint(Record):
    """One point of a learning curve."""

    step: int = Field(ge=0)
    """Number of optimiser steps."""
    loss: float
    """Loss at this step in nats per token; for an objective with several terms, their weighted sum."""


class TopWord(Record):
    """One of a method's most probable next tokens."""

    word: str
    """The token as text, with ``␣`` for a space."""
    probability: float = Field(ge=0)
    """The token's probability."""
    sources: dict[str, float]
    """Contribution of each component (softmax, cache, context, ...) to the probability. The sum is the probability."""


class ExamplePrediction(Record):
    """A method's most probable next tokens after one prompt."""

    prompt: str
    """The text before the predicted token. For source-target pairs: the source, an arrow and the begun target."""
    expected: list[str]
    """The correct tokens, written as in ``top``; empty if the prompt has no correct token."""
    setting: str
    """The distribution that predicted: "joint" (the head's own) or "cache_only" (its cache alone)."""
    top: list[TopWord]
    """The most probable tokens, in decreasing order of probability."""


class Span(Record):
    """A span of a text with marks, for the report."""

    text: str
    """Text of the span."""
    very_rare: bool
    """Whether the tokens of the span are very rare, which means that they are not among the most frequent tokens that
    together make up 90 % of the training text."""
    repeated: bool = False
    """Whether the tokens of the span are very rare and all occurred earlier in the same text."""
    lower_case: bool = False
    """Whether the tokens of the span are very rare and part of a word in lower case, which is therefore not a name.
    F2-Softmax's table 4 calls such words non-pronouns, such as "eccentric", in contrast to "Bob Marley"."""
    copied: bool = False
    """Whether the span is part of three or more consecutive words that also follow one another in the source."""


class WrittenText(Record):
    """One text of a ``WrittenExample``."""

    author: str
    """Label of the method that generated the text, or "human"."""
    spans: list[Span]
    """The text as spans. All words of a span have the same marks."""
    very_rare: float = Field(ge=0, le=1)
    """Share of the text's tokens that are very rare."""


class WrittenExample(Record):
    """The human reference and every method's text for one prompt or source (F2-Softmax, tables 4 and 11)."""

    prompt: str
    """The prompt."""
    decoding: str
    """Title of the decoding, a key of ``Results.texts``."""
    seed: int
    """Seed of the runs that generated the texts."""
    texts: list[WrittenText]
    """The texts. The human reference comes first, then the methods in their order."""
    source: str | None = None
    """The text to summarise, describe or expand; None: the texts continue the prompt."""


class Evaluation(Record):
    """All measurements of one trained model."""

    metrics: dict[str, MetricValue]
    """Values by name: "acc@1", "cache_only_acc@2", "rank@1e-3", "rank@default", "perplexity", "bits_per_byte", "nll",
    ..."""
    spectrum: list[float] | None = None
    """Largest singular values of the log-probability matrix (context positions × vocabulary), divided by the largest of
    them, in descending order. None if they were not computed."""
    examples: list[ExamplePrediction] = Field(default=[])
    """Some example predictions."""
    tuned: dict[str, JsonValue] = Field(default={})
    """Settings of the head that were chosen on validation data after training, such as temperature and weight of a
    cache."""
    undefined: dict[str, str] = Field(default={})
    """Metrics without a finite value, with the reason: ``{"perplexity": "inf"}``."""

    def finite(self) -> Evaluation:
        """Return a copy in which all values that are not finite are moved to ``undefined``.

        Raises:
            ValueError: If no metric would be left.
        """
        faults = {name: fault for name, value in self.metrics.items() if (fault := _fault(value.model_dump()))}
        if faults and len(faults) == len(self.metrics):
            raise ValueError(
                f"no metric has a finite value: {', '.join(f'{name} is {fault}' for name, fault in faults.items())}"
            )
        metrics = {name: value for name, value in self.metrics.items() if name not in faults}
        spectrum = self.spectrum
        if spectrum is not None and (fault := _fault(spectrum)):
            faults, spectrum = {**faults, "spectrum": fault}, None
        undefined = {**self.undefined, **faults}
        return self.model_copy(update={"metrics": metrics, "spectrum": spectrum, "undefined": undefined})


def _fault(value: Any) -> str:
    return next(iter(non_finite(value)), "").rpartition(" ")[2]


class MethodWithSeed(Record):
    """A method of a comparison, with one training seed."""

    method: str
    """Label of the method in the comparison."""
    head: str
    """Head spec, for example "softmax+cpr:20,100+mi"."""
    objective: str
    """Objective spec, for example "mle"."""
    conditioner: str | None = None
    """Conditioner spec, for example "bergpt:2"; None: no conditioner."""
    seed: int
    """Seed of this run."""


class FailedRun(MethodWithSeed):
    """A method that failed in training or evaluation with one seed."""

    reason: str
    """Reason, for example "diverged at step 12: the loss is nan"."""
    traceback: str | None = None
    """File with the traceback, relative to results.json; None if the reason is sufficient."""


class RunRecord(MethodWithSeed):
    """One method trained and evaluated with one seed."""

    evaluation: Evaluation
    """Measurements."""
    cost: Cost
    """Cost."""
    curve: list[CurvePoint] = Field(default=[])
    """Training loss over steps; empty without training."""
    settings: dict[str, JsonValue] = Field(default={})
    """All settings needed to repeat the run: head, objective and training."""
    note: str | None = None
    """Note for the reader, for example "the baseline as in the paper, with its error"."""
    facts: dict[str, JsonValue] = Field(default={})
    """Facts about the built head, for example ``{"classes": 10, "division": "mefmax"}``."""
    samples: dict[str, list[str]] = Field(default={})
    """Samples files of the method by decoding, with one file per sampling seed. Paths are relative to results.json."""

    @field_validator("samples", mode="before")
    @classmethod
    def _one_draw(cls, samples: Any) -> Any:
        # earlier versions generated once per decoding, and their records have a single file name here
        if not isinstance(samples, dict):
            return samples
        return {title: [files] if isinstance(files, str) else files for title, files in samples.items()}

    @model_validator(mode="after")
    def _all_finite(self) -> Self:
        wrong = "; ".join(non_finite(self.model_dump()))
        if wrong:
            raise ValueError(f"run '{self.method}' (seed {self.seed}): {wrong}; only finite numbers are recorded")
        return self


class TriedSettings(Record):
    """One combination of settings in a search."""

    settings: dict[str, JsonValue]
    """Settings by path: "training.learning_rate", "objective.alpha"."""
    nats: float | None = None
    """Negative log-likelihood of the validation rows in nats per token, even if the objective is another loss. None if
    the training failed (see ``reason``)."""
    reason: str | None = None
    """Reason why ``nats`` is None, for example "diverged at step 12: the loss is nan"."""


class GridSearch(Record):
    """The search that chose a method's settings by validation likelihood, before the method's runs."""

    seed: int
    """Training seed of the search."""
    tried: list[TriedSettings]
    """The combinations tried so far, in order."""
    chosen: dict[str, JsonValue] | None
    """The settings with the lowest ``nats`` among ``tried``. None if no combination has ``nats``."""


class Results(VersionedRecord):
    """Record of a comparison: the content of results.json."""

    kind: Literal["compare"] = "compare"
    """Kind of record."""
    task: str
    """Name of the task."""
    task_version: int
    """Version of the task. Results of different versions are not comparable."""
    command: str
    """Command that reproduces these results."""
    data: dict[str, int | float | str]
    """Sizes, split, sources and checksums of the data."""
    start: dict[str, JsonValue]
    """Initial checkpoint of all methods."""
    seeds: list[int]
    """Seeds of every method."""
    runs: list[RunRecord]
    """Finished runs, one per method and seed."""
    failures: list[FailedRun] = Field(default=[])
    """Failed runs, in order. They are not in ``runs``, and the same command tries them again."""
    measures: dict[str, Measure] = Field(default={})
    """Description of every metric by key, in the order of the report; empty in records of earlier versions."""
    environment: Environment
    """Environment and time."""
    settings: dict[str, JsonValue] = Field(default={})
    """All settings of the comparison."""
    searches: dict[str, GridSearch] = Field(default={})
    """The search of each method that had settings to search, by the method's label."""
    texts: dict[str, EvaluationResults] = Field(default={})
    """Evaluations of the generated texts by decoding ("greedy", "top-k 3"). The systems are the methods."""
    written: list[WrittenExample] = Field(default=[])
    """Some of the generated texts."""

    @model_validator(mode="after")
    def _runs_are_distinct(self) -> Self:
        wrong = "; ".join(non_finite({"data": self.data, "start": self.start, "settings": self.settings}))
        if wrong:
            raise ValueError(f"{wrong}; only finite numbers are recorded")
        seen: set[tuple[str, int]] = set()
        for run in self.runs:
            key = (run.method, run.seed)
            if key in seen:
                raise ValueError(
                    f"runs: must have different labels ('{run.method}' with seed {run.seed} occurs twice); change a "
                    f"label"
                )
            seen.add(key)
        return self


# -- One trained model: its settings, measurements and cost, and the results of the checker.


class PropertySummary(Record):
    """Result of ``nextword.check`` for one property."""

    name: str
    """Name of the property."""
    verdict: Literal["passed", "FAILED", "not checked"]
    """Outcome."""
    explanation: str | None = None
    """Where the check failed, and advice; None if there is nothing to explain."""


class TrainingResults(VersionedRecord):
    """Record of a training: the content of record.json."""

    kind: Literal["train"] = "train"
    """Kind of record."""
    command: str
    """Command that reproduces this model."""
    settings: dict[str, JsonValue]
    """All settings that the user gave."""
    head: str
    """Head spec."""
    objective: str
    """Objective spec."""
    conditioner: str | None = None
    """Conditioner spec; None: no conditioner."""
    data: dict[str, int | float | str]
    """Kind, sizes, split, sources and checksums of the data."""
    training: dict[str, JsonValue]
    """All training settings."""
    evaluation: Evaluation
    """Measurements on the test split."""
    measures: dict[str, Measure] = Field(default={})
    """Description of every metric by key, in the order of the report; empty in records of earlier versions."""
    checks: list[PropertySummary]
    """Results of ``nextword.check`` on the trained model."""
    cost: Cost
    """Cost of the training."""
    curve: list[CurvePoint]
    """Training loss over steps."""
    validation_curve: list[CurvePoint] = Field(default=[])
    """Validation loss over steps; empty if not computed."""
    best_step: int | None = None
    """Step with the lowest validation loss, if the model has the weights of this step (training.keep_best). None: the
    model has the weights of the last step."""
    facts: dict[str, JsonValue] = Field(default={})
    """Facts about the built head."""
    environment: Environment
    """Environment and time."""

    @property
    def steps(self) -> int:
        """Number of optimiser steps: that of the last point of ``curve``, or 0 if ``curve`` is empty."""
        return self.curve[-1].step if self.curve else 0

    @property
    def passed(self) -> bool:
        """Whether the checker found no fault."""
        return all(one.verdict != "FAILED" for one in self.checks)
