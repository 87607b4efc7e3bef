"""Files of a survey: forms for judges, the secret key, the judges' answers, and the results."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field

from nextword.results.records.evaluation_results import EvaluationResults
from nextword.results.records.measured_values import MetricValue
from nextword.runtime.files import Record, VersionedRecord

Level = Literal["nominal", "ordinal", "interval"]
"""Scale of a question's answers: unordered ("nominal"), ordered ("ordinal") or with equal steps ("interval")."""

DIGEST = 16
"""Number of characters of a checksum in files."""


class Passage(Record):
    """A text that judges read."""

    title: str
    """Heading; empty if there is none."""
    lines: list[str]
    """Lines of the text."""


class Choice(Record):
    """One answer to a question."""

    value: str
    """Name of the answer in records."""
    label: str
    """Text that judges see."""


class Question(Record):
    """A question about every unit."""

    name: str
    """Name of the question in records."""
    text: str
    """Text that judges see."""
    choices: list[Choice] = Field(min_length=2)
    """The answers, in the order in which they are shown."""
    levels: list[Level]
    """Scales on which the judges' agreement is measured."""


class Marking(Record):
    """The task of marking words in a unit's text, which a judge gets after a certain answer."""

    question: str
    """Name of the question whose answer leads to the marking."""
    value: str
    """Answer after which words can be marked."""
    text: str
    """Instruction for marking."""


class SurveyUnit(Record):
    """The text or texts that one answer is about. Each question is asked once per unit."""

    id: str
    """Id of the unit within its item."""
    group: str
    """Name of the unit's group. Units of the same text have the same group and are shown one below the other."""
    texts: list[Passage]
    """Judged texts: two in a pairwise survey, otherwise one."""
    near: list[int] = Field(default=[])
    """Indices of the lines of the item's first passage that are shown next to the unit."""


class SurveyItem(Record):
    """A page for judges: passages to read, and units to judge."""

    id: str
    """Random id, which does not reveal the systems."""
    passages: list[Passage]
    """Passages that judges read, but do not judge."""
    units: list[SurveyUnit]
    """Units to judge."""

    @property
    def digest(self) -> str:
        """Checksum of the content, to detect edited items."""
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]


class FormPage(Record):
    """One page of a form: an item, with the order of its units."""

    item: str
    """Id of the item."""
    order: list[str]
    """Ids of the units, in the order shown."""


class Form(Record):
    """The form of one judge."""

    id: str
    """Number of the form, from 1."""
    pages: list[FormPage]
    """Pages in the order shown, including checks."""


class Survey(VersionedRecord):
    """A survey without its key (``SurveyKey``). Judges may see everything here."""

    kind: Literal["survey"] = "survey"
    """Kind of file."""
    id: str
    """Random id of the survey."""
    asks: str
    """Kind of survey: "pairwise", "rating", "faithfulness" or a registered kind."""
    title: str
    """Heading of the page."""
    consent: str
    """Consent text before the first item. A blank line separates paragraphs."""
    instructions: str
    """Instructions for judges. A blank line separates paragraphs."""
    hand_back: str
    """Text on the last page about what to do with the answer file."""
    completion_url: str
    """Link at the end; empty if there is none."""
    group_title: str
    """Name of a group of units, which is shown before the group's number; empty if pages have only one group."""
    questions: list[Question] = Field(min_length=1)
    """Questions about every unit."""
    marking: Marking | None
    """Marking task; None if there is none."""
    items: list[SurveyItem]
    """All items, including checks."""
    digests: dict[str, str]
    """Checksum of each item, computed when the survey was made."""
    forms: list[Form]
    """Forms of the judges."""


class KeyItem(Record):
    """The origin of an item: its sample, and the system of each text."""

    prompt: str
    """Id of the sample that has the prompt, or the number of this sample in the samples file."""
    units: dict[str, dict[str, str]]
    """System of each text, by unit and side. The sides of two texts are "a" and "b"; the side of a single text is
    "text"."""


class KeyFile(Record):
    """A samples file of the survey."""

    system: str
    """Name of the system in tables."""
    file: str
    """File name without the folder."""
    sha256: str
    """Checksum of the file."""


class SurveyKey(VersionedRecord):
    """The secret key: the system of each text, and the correct answers to the items that check the judges."""

    kind: Literal["survey-key"] = "survey-key"
    """Kind of file."""
    survey: str
    """Id of the survey."""
    command: str
    """Command that makes the survey again."""
    seed: int
    """Seed of all random choices."""
    allowed_failures: int
    """Number of checks that a judge may fail. If a judge fails more, none of this judge's answers count."""
    files: list[KeyFile]
    """Samples files."""
    items: dict[str, KeyItem]
    """Items by id, without checks."""
    checks: dict[str, dict[str, str]]
    """Correct answer to each question, by id of the check."""


class UnitAnswers(Record):
    """A judge's answers about a unit."""

    id: str
    """Id of the unit."""
    answers: dict[str, str]
    """Chosen value by question."""
    marks: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(default=[])
    """Marked spans of the unit's last text: index of the first character, and index after the last character."""


class ItemAnswers(Record):
    """A judge's answers about an item."""

    id: str
    """Id of the item."""
    digest: str
    """Checksum of the item as the judge saw it."""
    seconds: float = Field(default=0, ge=0)
    """Seconds on the page."""
    units: list[UnitAnswers]
    """Answers about units, in any order."""


class JudgeAnswers(VersionedRecord):
    """The answer file of a judge."""

    kind: Literal["survey-answers"] = "survey-answers"
    """Kind of file."""
    survey: str
    """Id of the survey."""
    form: str
    """Id of the form; empty if a platform distributed single items."""
    judge: str = Field(min_length=1)
    """Name or number of the judge. It is the same in all files of one person."""
    consent: bool
    """Whether the judge consented."""
    items: list[ItemAnswers]
    """Answers about items."""


# -- The results of a survey: values, tests, agreement, and answers that were left out.


class WinTieLose(Record):
    """How often judges preferred each of two systems in the answers to one question."""

    question: str
    """Name of the question."""
    first: str
    """First system."""
    second: str
    """Second system."""
    win: MetricValue
    """Share of answers that prefer the first system."""
    tie: MetricValue
    """Share of answers that see no difference."""
    lose: MetricValue
    """Share of answers that prefer the second system."""


class Agreement(Record):
    """Agreement of judges on a question."""

    question: str
    """Name of the question."""
    alpha: dict[Level, float | None]
    """Krippendorff's alpha for each scale of the answers. None if all answers are equal or no unit has two answers."""
    percent: float | None
    """Share of equal pairs among all pairs of answers about the same unit; None if no unit has two answers."""
    units: int = Field(ge=0)
    """Number of units with answers of at least two judges."""


class JudgeRecord(Record):
    """Facts about one judge's answers."""

    name: str
    """Name in the answer files."""
    items: int = Field(ge=0)
    """Number of items that the judge answered, without checks; 0 if ``counted`` is false."""
    checks: int = Field(ge=0)
    """Number of checks that the judge answered."""
    failed: int = Field(ge=0)
    """Number of checks that the judge failed."""
    counted: bool
    """Whether the judge's answers count. False if the judge failed more checks than ``SurveyKey.allowed_failures``."""
    seconds: float | None
    """Median seconds per item, without checks; None if no item has a time."""


class Correlation(Record):
    """Correlation between an automatic metric and a human measure, with one pair of values per system."""

    people: str
    """Key of the human measure in ``SurveyResults.judged``."""
    automatic: str
    """Title of the automatic metric."""
    systems: int = Field(ge=2)
    """Number of systems that have both values."""
    pearson: float | None
    """Pearson's correlation. None, as the next two, if the metric or the human measure is equal for all systems."""
    spearman: float | None
    """Spearman's rank correlation."""
    kendall: float | None
    """Kendall's tau-b."""


class SurveyResults(VersionedRecord):
    """Record of a survey's results: the content of results.json."""

    kind: Literal["survey-results"] = "survey-results"
    """Kind of record."""
    asks: str
    """Kind of the survey."""
    title: str
    """Heading of the survey."""
    survey: str
    """Id of the survey."""
    judged: EvaluationResults
    """Values of every system with intervals, and tests, in the form of an evaluation."""
    duels: list[WinTieLose]
    """Wins, ties and losses for each question. Empty unless judges compared two texts."""
    agreement: list[Agreement]
    """Agreement of the judges on each question."""
    judges: list[JudgeRecord]
    """All judges who answered this survey, including those whose answers do not count."""
    marked: dict[str, MetricValue]
    """Share of marked words by system; empty without a marking task."""
    left_out: list[str]
    """Messages about answers that were left out."""
    correlations: list[Correlation]
    """Correlations with automatic metrics. Empty if no such metrics were given."""
    uncorrelated: str | None
    """Reason why there are no correlations although automatic metrics were given; otherwise None."""
