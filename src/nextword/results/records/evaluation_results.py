"""An evaluation of samples: what was measured of the texts of each system, and how the systems compare."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from nextword.results.records.measured_values import Environment, Measure, MetricValue
from nextword.runtime.files import Record, VersionedRecord, non_finite


class SampleFile(Record):
    """One samples file of one system and what was measured of it."""

    file: str
    """Its name, without the folder."""
    sha256: str
    """Checksum of its bytes."""
    samples: int = Field(ge=0)
    """Samples in it."""
    plain_text: Literal["lines", "blocks"] | None = None
    """How plain text was cut into samples: one per line, or one between blank lines; None: the file has JSON lines."""
    values: dict[str, MetricValue]
    """By key of ``measures``."""
    undefined: dict[str, str] = Field(default={})
    """Metrics without a value for these samples, with the reason."""


class SystemRecord(Record):
    """One system: its files, one per seed, and the means over them."""

    name: str
    """As in the tables."""
    files: list[SampleFile]
    """One for each seed, in the order given."""
    values: dict[str, MetricValue]
    """With one file its values; with several the mean, where all of them have one, and Student's interval of it: over
    the trained models, each with the mean of its files, or over the files of the only model."""
    draws: int = Field(default=1, ge=1)
    """Files in a row that one trained model wrote, drawn with seeds of their own."""

    @property
    def models(self) -> list[list[SampleFile]]:
        """The files that each trained model wrote."""
        return [self.files[begin : begin + self.draws] for begin in range(0, len(self.files), self.draws)]


class PairRecord(Record):
    """One measure of two systems on the same samples."""

    measure: str
    """Key of the measure."""
    first: str
    """A system."""
    second: str
    """Another one."""
    difference: float
    """Value of the first less that of the second, all seeds' texts taken together."""
    low: float | None
    """Lower end of its 95 % bootstrap interval; None where none could be drawn."""
    high: float | None
    """Upper end."""
    p_bootstrap: float = Field(ge=0, le=1)
    """Two-sided paired bootstrap, not corrected."""
    p_permutation: float = Field(ge=0, le=1)
    """Two-sided paired permutation test, not corrected."""
    p_holm: float = Field(ge=0, le=1)
    """The permutation test's p, corrected for all tests of this evaluation (Holm)."""


class Duel(Record):
    """How many measures are better for one of two systems."""

    first: str
    """A system."""
    second: str
    """Another one."""
    won: int = Field(ge=0)
    """Measures that are better for the first."""
    lost: int = Field(ge=0)
    """Measures that are better for the second."""
    tied: int = Field(ge=0)
    """Measures that are equal."""


class Place(Record):
    """A system's place in the ranking: a system beats another that is worse in the majority of measures."""

    rank: int = Field(ge=1)
    """1 is the best; equal numbers of wins and losses share a rank."""
    name: str
    """The system."""
    wins: int = Field(ge=0)
    """Systems it beats."""
    losses: int = Field(ge=0)
    """Systems that beat it."""


class Wins(Record):
    """Pairwise majority over measures (F2-Softmax, table 9)."""

    measures: list[str]
    """Keys that voted, one vote each."""
    duels: list[Duel]
    """Every pair of systems once."""
    ranking: list[Place]
    """All systems, best first."""


class EvaluationResults(VersionedRecord):
    """A whole evaluation: the content of its results.json."""

    kind: Literal["evaluate"] = "evaluate"
    """What sort of run this is."""
    command: str
    """The command that makes these results again."""
    unit: str
    """What tokens are: "words", "token ids of the samples" or "tokens of ..."."""
    measures: dict[str, Measure]
    """What every value means, by key, in reading order."""
    systems: list[SystemRecord]
    """In the order given."""
    human: SampleFile | None
    """The first references scored as if a system had written them; None without references or where not wanted."""
    left_out: dict[str, str]
    """Metrics that were not measured although all were asked for, with the reason."""
    tests: list[PairRecord]
    """Paired tests between systems; empty with one system."""
    untested: str | None
    """Why there are no paired tests, where there are several systems and none."""
    wins: Wins | None
    """Pairwise majority; None with one system."""
    settings: dict[str, JsonValue]
    """Metrics and everything else in full."""
    environment: Environment
    """Where and when."""

    def __getitem__(self, name: str) -> SystemRecord:
        """The system of that name."""
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
