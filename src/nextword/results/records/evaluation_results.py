"""Records of an evaluation: the values of each system's texts, and comparisons between systems."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from nextword.results.records.measured_values import Environment, Measure, MetricValue
from nextword.runtime.files import Record, VersionedRecord, non_finite


class SampleFile(Record):
    """One samples file of a system, with the metrics' values for this file."""

    file: str
    """File name, without the folder."""
    sha256: str
    """Checksum of the file."""
    samples: int = Field(ge=0)
    """Number of samples."""
    plain_text: Literal["lines", "blocks"] | None = None
    """How plain text was split into samples: one per line, or separated by blank lines. None if the file has JSON
    lines."""
    values: dict[str, MetricValue]
    """Values by key of ``measures``."""
    undefined: dict[str, str] = Field(default={})
    """Metrics without a value, each with the reason."""


class SystemRecord(Record):
    """One system: its files, one per seed, and the means over files."""

    name: str
    """Name in tables."""
    files: list[SampleFile]
    """Files, one per seed, in the given order."""
    values: dict[str, MetricValue]
    """Values by key of ``measures``. With one file, they are the values of this file. With several files, they are
    means over the files, for each metric that has a value in every file, with Student's intervals. An interval is over
    the means of the trained models or, if there is only one model, over the files."""
    draws: int = Field(default=1, ge=1)
    """Number of consecutive files that come from the same trained model, with different sampling seeds."""

    @property
    def models(self) -> list[list[SampleFile]]:
        """The files of each trained model."""
        return [self.files[begin : begin + self.draws] for begin in range(0, len(self.files), self.draws)]


class PairRecord(Record):
    """Paired test of one metric between two systems on the same samples."""

    measure: str
    """Key of the metric."""
    first: str
    """First system."""
    second: str
    """Second system."""
    difference: float
    """Value of ``first`` minus value of ``second``. Each value is over all prompts, with the mean of all seeds for each
    prompt."""
    low: float | None
    """Lower end of the 95 % bootstrap interval of the difference; None if undefined."""
    high: float | None
    """Upper end of the interval."""
    p_bootstrap: float = Field(ge=0, le=1)
    """p-value of the two-sided paired bootstrap test, uncorrected."""
    p_permutation: float = Field(ge=0, le=1)
    """p-value of the two-sided paired permutation test, uncorrected."""
    p_holm: float = Field(ge=0, le=1)
    """Holm-corrected p-value of the permutation test, over all tests of this evaluation."""


class Duel(Record):
    """Two systems, with the number of metrics in which each is better."""

    first: str
    """First system."""
    second: str
    """Second system."""
    won: int = Field(ge=0)
    """Number of metrics in which the first is better."""
    lost: int = Field(ge=0)
    """Number of metrics in which the second is better."""
    tied: int = Field(ge=0)
    """Number of metrics in which the two systems are equal."""


class Place(Record):
    """A system's rank. A system beats another one if it is better in more metrics."""

    rank: int = Field(ge=1)
    """Rank by wins, then by losses; 1 is the best. Systems with equal wins and losses share a rank."""
    name: str
    """Name of the system."""
    wins: int = Field(ge=0)
    """Number of systems that this system beats."""
    losses: int = Field(ge=0)
    """Number of systems that beat this system."""


class Wins(Record):
    """Ranking of systems: in each pair, the system that is better in more metrics wins (F2-Softmax, table 9)."""

    measures: list[str]
    """Keys of the metrics that are compared in each pair. Each has one vote."""
    duels: list[Duel]
    """Comparisons of all pairs of systems."""
    ranking: list[Place]
    """Ranks of all systems, best first."""


class EvaluationResults(VersionedRecord):
    """Record of an evaluation: the content of its results.json."""

    kind: Literal["evaluate"] = "evaluate"
    """Kind of record."""
    command: str
    """Command that reproduces these results."""
    unit: str
    """What is counted as a token: "words", "token ids of the samples" or "tokens of ..."."""
    measures: dict[str, Measure]
    """Description of every value by key, in the order of the report."""
    systems: list[SystemRecord]
    """Systems in the given order."""
    human: SampleFile | None
    """Values of the first human references, scored like a system. None if there are no references, or with
    ``human=False``."""
    left_out: dict[str, str]
    """Metrics that "all" left out, each with the reason."""
    tests: list[PairRecord]
    """Paired tests between systems; empty with one system, or for the reason in ``untested``."""
    untested: str | None
    """Reason why there are several systems but no paired tests; otherwise None."""
    wins: Wins | None
    """Ranking of the systems; None with one system, or if no metric can be compared."""
    settings: dict[str, JsonValue]
    """All settings."""
    environment: Environment
    """Date, versions and machine of the evaluation."""

    def __getitem__(self, name: str) -> SystemRecord:
        """Return the system with this name."""
        for system in self.systems:
            if system.name == name:
                return system
        raise KeyError(name)

    @model_validator(mode="after")
    def _all_finite(self) -> Self:
        files = {f"{system.name}, {file.file}": file for system in self.systems for file in system.files}
        if self.human is not None:
            files["human"] = self.human
        wrong = "; ".join(
            f"{name}: {fault}" for name, file in files.items() for fault in non_finite(file.model_dump()["values"])
        )
        if wrong:
            raise ValueError(f"{wrong}; only finite numbers are recorded")
        names = [system.name for system in self.systems]
        if len(set(names)) < len(names):
            raise ValueError(f"systems: must have different names ({', '.join(names)} given)")
        return self
