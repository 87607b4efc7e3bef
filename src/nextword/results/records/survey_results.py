"""What people said in a survey: values, tests, agreement, and what was left out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nextword.results.records.evaluation_results import EvaluationResults
from nextword.results.records.measured_values import MetricValue
from nextword.results.records.survey_files import Level
from nextword.runtime.files import SCHEMA_VERSION, Record, VersionedRecord


class WinTieLose(Record):
    """One question of a comparison of two systems."""

    question: str
    """Its text in short."""
    first: str
    """A system."""
    second: str
    """The other one."""
    win: MetricValue
    """Share of answers that prefer the first."""
    tie: MetricValue
    """Share of answers that see no difference."""
    lose: MetricValue
    """Share of answers that prefer the second."""


class Agreement(Record):
    """How far the judges agree on a question."""

    question: str
    """Its name."""
    alpha: dict[Level, float | None]
    """Krippendorff's alpha on each scale that fits; None where all answers are the same or nothing was judged twice."""
    percent: float | None
    """Share of pairs of judges with the same answer about the same unit; None where nothing was judged twice."""
    units: int = Field(ge=0)
    """Units with answers of at least two judges."""


class JudgeRecord(Record):
    """One judge."""

    name: str
    """As handed back."""
    items: int = Field(ge=0)
    """Items that count, without checks."""
    checks: int = Field(ge=0)
    """Checks answered."""
    failed: int = Field(ge=0)
    """Checks answered wrongly."""
    counted: bool
    """Whether the answers count."""
    seconds: float | None
    """Median time on an item; None where the platform does not tell."""


class Correlation(Record):
    """An automatic measure and what people said, over the systems."""

    people: str
    """Key of people's measure."""
    automatic: str
    """Title of the automatic measure."""
    systems: int = Field(ge=2)
    """Systems that have both."""
    pearson: float | None
    """Of the values; None where one of the two does not vary."""
    spearman: float | None
    """Of the ranks."""
    kendall: float | None
    """Tau b."""


class SurveyResults(VersionedRecord):
    """The content of a survey's results.json."""

    schema_version: int = SCHEMA_VERSION
    """Version of the file format."""
    kind: Literal["survey-results"] = "survey-results"
    """What sort of run this is."""
    asks: str
    """Kind of the survey."""
    title: str
    """Its heading."""
    survey: str
    """Its id."""
    judged: EvaluationResults
    """Values of every system with intervals, and tests, in the form of an evaluation."""
    duels: list[WinTieLose]
    """Win, tie, lose of each question; empty where nothing was compared directly."""
    agreement: list[Agreement]
    """Of each question."""
    judges: list[JudgeRecord]
    """Everyone who handed something back to this survey."""
    marked: dict[str, MetricValue]
    """By system, share of words that were marked; empty where none were asked for."""
    left_out: list[str]
    """What does not count, and why."""
    correlations: list[Correlation]
    """With automatic measures; empty where none were given."""
    uncorrelated: str | None
    """Why there are no correlations where automatic measures were given."""
