"""A comparison: what every method measured and cost, with every seed."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from nextword.results.records.evaluation_results import EvaluationResults
from nextword.results.records.measured_values import Environment, Measure, MetricValue
from nextword.runtime.files import Record, VersionedRecord, non_finite

WITH_PROMPT = ", with prompt"
"""How the title of a decoding ends that differs from the one without this end by a prompt alone."""


class Cost(Record):
    """What a run cost."""

    parameters: int = Field(ge=0)
    """Parameters of the whole model, shared weights counted once."""
    trained_parameters: int = Field(ge=0)
    """Parameters that had gradients, those of adapters included; 0 where nothing was trained."""
    trained: dict[str, int] = Field(default={})
    """The same by module, for example {"backbone.transformer.ln_f": 1536, "conditioner": 7087872}; the whole model is
    "all", and a module of every layer has a * for the layer's number. Empty in records of earlier versions."""
    ms_per_step: float | None = None
    """Milliseconds per optimiser step; None where nothing was trained."""
    peak_memory_mib: float | None = None
    """Highest memory use in MiB; None where it was not measured."""
    train_seconds: float | None = None
    """Seconds of training in all; None where nothing was trained."""


class CurvePoint(Record):
    """One point of a learning curve."""

    step: int = Field(ge=0)
    """Optimiser steps done."""
    loss: float
    """Training loss at that step, nats per token; for an objective of several terms, their weighted sum."""


class TopWord(Record):
    """One of a method's most probable next tokens."""

    word: str
    """The token as text, a space in it as ``␣``."""
    probability: float = Field(ge=0)
    """Its probability."""
    sources: dict[str, float]
    """Share of the probability by where it came from (softmax, cache, context, ...); they add up to it."""


class ExamplePrediction(Record):
    """What a method says after one prompt, to be read by a person."""

    prompt: str
    """The text before the predicted word."""
    expected: list[str]
    """The words that would be right, written as in ``top``."""
    setting: str
    """Which distribution was asked: "joint" or "cache_only"."""
    top: list[TopWord]
    """The most probable words, best first."""


class Span(Record):
    """A stretch of a text, to be read by a person."""

    text: str
    """What stands there."""
    very_rare: bool
    """Whether its tokens are very rare in the training text (beyond the first 90 % of its tokens, frequent first)."""
    repeated: bool = False
    """Whether these very rare tokens already stood before in the same text."""
    lower_case: bool = False
    """Whether they are of a word in lower case, and so of no name. F2-Softmax's table 4 calls such words non-pronouns;
    its examples are "eccentric" and "vanished", against names such as "Bob Marley"."""
    copied: bool = False
    """Whether it is part of three words or more that stand in the source too, in the same order."""


class WrittenText(Record):
    """One continuation of a prompt."""

    author: str
    """Label of the method, or "human"."""
    spans: list[Span]
    """The text, cut where its marks change."""
    very_rare: float = Field(ge=0, le=1)
    """Share of very rare tokens in it."""


class WrittenExample(Record):
    """What people and every method wrote after one prompt (F2-Softmax, tables 4 and 11)."""

    prompt: str
    """The text before."""
    decoding: str
    """How the methods wrote, a key of ``Results.texts``."""
    seed: int
    """Seed of the runs that wrote it."""
    texts: list[WrittenText]
    """People first, then the methods in their order."""
    source: str | None = None
    """The text that was to be summarised, described or expanded; None: the texts continue from the prompt alone."""


class Evaluation(Record):
    """Everything measured of one trained model."""

    metrics: dict[str, MetricValue]
    """By name: "acc@1", "cache_only_acc@2", "rank@1e-3", "rank@default", "perplexity", "bits_per_byte", "nll", ..."""
    spectrum: list[float] | None = None
    """Singular values of the log-probability matrix, relative to the largest, in falling order; None: not taken."""
    examples: list[ExamplePrediction] = Field(default=[])
    """A few predictions to read."""
    tuned: dict[str, JsonValue] = Field(default={})
    """Evaluation-time settings chosen on validation data, for example the cache's temperature and weight."""
    undefined: dict[str, str] = Field(default={})
    """What was asked for and has no finite value, with the reason: ``{"perplexity": "inf"}``."""

    def finite(self) -> Evaluation:
        """The same with all that is not finite moved to ``undefined``.

        Raises:
            ValueError: No metric would be left.
        """
        faults = {name: fault for name, value in self.metrics.items() if (fault := _fault(value.model_dump()))}
        if faults and len(faults) == len(self.metrics):
            raise ValueError(
                f"nothing could be measured: {', '.join(f'{name} is {fault}' for name, fault in faults.items())}"
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
    """Which method of a comparison, and which seed."""

    method: str
    """Label of the method in the comparison."""
    head: str
    """Head spec, for example "softmax+cpr:20,100+mi"."""
    objective: str
    """Objective spec, for example "mle"."""
    conditioner: str | None = None
    """Conditioner spec, for example "bergpt:2"; None: nothing conditions it."""
    seed: int
    """Seed of this run."""


class FailedRun(MethodWithSeed):
    """A method that could not be trained or measured with one seed."""

    reason: str
    """What happened, for example "diverged at step 12: the loss is nan"."""
    traceback: str | None = None
    """File with the whole traceback, relative to results.json; None where the reason says it all."""


class RunRecord(MethodWithSeed):
    """One method trained and measured with one seed."""

    evaluation: Evaluation
    """What was measured."""
    cost: Cost
    """What it cost."""
    curve: list[CurvePoint] = Field(default=[])
    """Training loss over steps; empty where nothing was trained."""
    settings: dict[str, JsonValue] = Field(default={})
    """Everything needed to repeat the run: head, objective and training settings in full."""
    note: str | None = None
    """What a reader must know, for example "the paper's broken baseline"."""
    facts: dict[str, JsonValue] = Field(default={})
    """What the head says about itself once it is built, for example ``{"classes": 10, "division": "mefmax"}``."""
    samples: dict[str, list[str]] = Field(default={})
    """Samples files that the method wrote, by decoding, one for each draw: paths relative to results.json."""

    @field_validator("samples", mode="before")
    @classmethod
    def _one_draw(cls, samples: Any) -> Any:
        # records of versions in which a decoding was drawn once have its file alone
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
    """One combination of settings that a search tried."""

    settings: dict[str, JsonValue]
    """By path: "training.learning_rate", "objective.alpha"."""
    nats: float | None = None
    """Nats per token of the validation rows, whatever the method's objective is; None: there is no such number."""
    reason: str | None = None
    """Why there is none, for example "diverged at step 12: the loss is nan"."""


class GridSearch(Record):
    """Settings of a method that were chosen by validation likelihood, before its runs."""

    seed: int
    """Seed of all trainings of the search."""
    tried: list[TriedSettings]
    """Every combination, in order."""
    chosen: dict[str, JsonValue] | None
    """That with the lowest validation loss, the first of equal ones; None: no training gave a number."""


class Results(VersionedRecord):
    """A whole comparison: the content of results.json."""

    kind: Literal["compare"] = "compare"
    """What sort of run this is."""
    task: str
    """Name of the task."""
    task_version: int
    """Version of the task; numbers of different versions must not be compared."""
    command: str
    """The command that makes these results again."""
    data: dict[str, int | float | str]
    """Sizes, split, sources and checksums of the data."""
    start: dict[str, JsonValue]
    """The model all methods started from."""
    seeds: list[int]
    """Seeds every method was run with."""
    runs: list[RunRecord]
    """One per method and seed."""
    failures: list[FailedRun] = Field(default=[])
    """Runs that failed, in their order; they are not among ``runs``, and the same command tries them again."""
    measures: dict[str, Measure] = Field(default={})
    """What every metric of the runs means, by key, in reading order; empty in records of earlier versions."""
    environment: Environment
    """Where and when."""
    settings: dict[str, JsonValue] = Field(default={})
    """The comparison's own settings in full."""
    searches: dict[str, GridSearch] = Field(default={})
    """What the methods' searches tried and chose, by method."""
    texts: dict[str, EvaluationResults] = Field(default={})
    """What was measured of the texts that the methods wrote, by decoding ("greedy", "top-k 3"); systems are methods."""
    written: list[WrittenExample] = Field(default=[])
    """A few of these texts to read."""

    @model_validator(mode="after")
    def _runs_are_distinct(self) -> Self:
        wrong = "; ".join(non_finite({"data": self.data, "start": self.start, "settings": self.settings}))
        if wrong:
            raise ValueError(f"{wrong}; only finite numbers are recorded")
        seen: set[tuple[str, int]] = set()
        for run in self.runs:
            key = (run.method, run.seed)
            if key in seen:
                raise ValueError(f"two runs are called '{run.method}' with seed {run.seed}: give one another label")
            seen.add(key)
        return self


# -- One trained model: what was asked for, what it measures, what it cost, and what the checker said.


class PropertySummary(Record):
    """What ``nextword.check`` found of one property."""

    name: str
    """The property."""
    verdict: Literal["passed", "FAILED", "not checked"]
    """What was found."""
    explanation: str | None = None
    """Where it failed, and what to look at."""


class TrainingResults(VersionedRecord):
    """The content of a trained model's record.json."""

    kind: Literal["train"] = "train"
    """What sort of run this is."""
    command: str
    """The command that makes this model again."""
    settings: dict[str, JsonValue]
    """What was asked for, in full."""
    head: str
    """Head spec."""
    objective: str
    """Objective spec."""
    conditioner: str | None = None
    """Conditioner spec; None: nothing conditions it."""
    data: dict[str, int | float | str]
    """Kind, sizes, split, sources and checksums of the data."""
    training: dict[str, JsonValue]
    """All training settings as they were used."""
    evaluation: Evaluation
    """What was measured on the test part."""
    measures: dict[str, Measure] = Field(default={})
    """What every metric of it means, by key, in reading order; empty in records of earlier versions."""
    checks: list[PropertySummary]
    """What the checker said."""
    cost: Cost
    """What the training cost."""
    curve: list[CurvePoint]
    """Training loss over steps."""
    validation_curve: list[CurvePoint] = Field(default=[])
    """Validation loss over steps; empty where none was asked for."""
    best_step: int | None = None
    """The step whose weights these are, where those of the lowest validation loss were kept; None: the last."""
    facts: dict[str, JsonValue] = Field(default={})
    """What the head says about itself once it is built."""
    environment: Environment
    """Where and when."""

    @property
    def steps(self) -> int:
        """Optimiser steps that were made."""
        return self.curve[-1].step if self.curve else 0

    @property
    def passed(self) -> bool:
        """Whether the checker found no fault."""
        return all(one.verdict != "FAILED" for one in self.checks)
