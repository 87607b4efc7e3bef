"""A survey as files: what judges receive, the key that they never receive, and what they hand back."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field

from nextword.results.records.evaluation_results import EvaluationResults
from nextword.results.records.measured_values import MetricValue
from nextword.runtime.files import Record, VersionedRecord

Level = Literal["nominal", "ordinal", "interval"]
"""What may be done with answers: tell them apart, put them in order, subtract them."""

DIGEST = 16
"""Characters of a checksum that stand in files."""


class Passage(Record):
    """Text to read."""

    title: str
    """Heading; empty for none."""
    lines: list[str]
    """Each stands on a line of its own."""


class Choice(Record):
    """One answer to a question."""

    value: str
    """As it is recorded."""
    label: str
    """As judges read it."""


class Question(Record):
    """What is asked about every unit."""

    name: str
    """As it is recorded."""
    text: str
    """As judges read it."""
    choices: list[Choice] = Field(min_length=2)
    """In the order shown."""
    levels: list[Level]
    """Scales on which agreement is measured."""


class Marking(Record):
    """Words that judges mark in a unit once they gave a certain answer."""

    question: str
    """Name of the question."""
    value: str
    """The answer after which words can be marked."""
    text: str
    """What judges are asked to mark."""


class SurveyUnit(Record):
    """What is judged: each question is asked about it once."""

    id: str
    """Within its item."""
    group: str
    """Units of one text share a group and are shown one below the other."""
    texts: list[Passage]
    """What is judged; two for a comparison."""
    near: list[int] = Field(default=[])
    """Lines of the item's first passage that belong to it; shown beside it."""


class SurveyItem(Record):
    """What a judge sees on one page."""

    id: str
    """Says nothing about where its texts come from."""
    passages: list[Passage]
    """To be read, not judged."""
    units: list[SurveyUnit]
    """To be judged."""

    @property
    def digest(self) -> str:
        """Checksum of the content, by which an edited item is known."""
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]


class FormPage(Record):
    """An item as one judge sees it."""

    item: str
    """Its id."""
    order: list[str]
    """Ids of its units, in the order shown."""


class Form(Record):
    """What one judge is given."""

    id: str
    """Its number, from 1."""
    pages: list[FormPage]
    """In the order shown, checks included."""


class Survey(VersionedRecord):
    """A survey without its key: everything that judges may receive."""

    kind: Literal["survey"] = "survey"
    """What sort of file this is."""
    id: str
    """Different for every survey."""
    asks: str
    """Kind of the survey."""
    title: str
    """Heading of the page."""
    consent: str
    """What a judge agrees to before the first item; a blank line separates paragraphs."""
    instructions: str
    """How to judge; a blank line separates paragraphs."""
    hand_back: str
    """Where the judge is to send the file."""
    completion_url: str
    """Address to go to at the end; empty for none."""
    group_title: str
    """What a group is called, before its number; empty where there is only one."""
    questions: list[Question] = Field(min_length=1)
    """Asked about every unit."""
    marking: Marking | None
    """Words to be marked; None for none."""
    items: list[SurveyItem]
    """Every item, checks among them."""
    digests: dict[str, str]
    """Checksum of each item when the survey was made."""
    forms: list[Form]
    """What the judges are given."""


class KeyItem(Record):
    """Where an item comes from."""

    prompt: str
    """Id of the sample, or its number in the file."""
    units: dict[str, dict[str, str]]
    """By unit: who wrote each of its texts. Sides of a comparison are named "a" and "b"; a single text is "text"."""


class KeyFile(Record):
    """A samples file that was read."""

    system: str
    """Its name in the tables."""
    file: str
    """Name without the folder."""
    sha256: str
    """Checksum of its bytes."""


class SurveyKey(VersionedRecord):
    """Who wrote what, and the right answers of the checks. Judges must not see it."""

    kind: Literal["survey-key"] = "survey-key"
    """What sort of file this is."""
    survey: str
    """Id of the survey."""
    command: str
    """The command that makes the survey again."""
    seed: int
    """Seed of all random choices."""
    allowed_failures: int
    """Wrong answers to checks with which a judge still counts."""
    files: list[KeyFile]
    """What was read."""
    items: dict[str, KeyItem]
    """By id; checks are not among them."""
    checks: dict[str, dict[str, str]]
    """By id of the check: question to right answer."""


class UnitAnswers(Record):
    """What a judge said about a unit."""

    id: str
    """Number of the unit."""
    answers: dict[str, str]
    """Question to the value of the choice."""
    marks: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(default=[])
    """Marked stretches of the unit's last text: first character and the one after the last."""


class ItemAnswers(Record):
    """What a judge said about an item."""

    id: str
    """Number of the item."""
    digest: str
    """Checksum of the item as the judge saw it."""
    seconds: float = Field(default=0, ge=0)
    """Time on the page."""
    units: list[UnitAnswers]
    """In any order."""


class JudgeAnswers(VersionedRecord):
    """The file that a judge hands back."""

    kind: Literal["survey-answers"] = "survey-answers"
    """What sort of file this is."""
    survey: str
    """Id of the survey."""
    form: str
    """Which form was filled in; empty where a platform handed out single items."""
    judge: str = Field(min_length=1)
    """Name or number of the judge, the same in every file of one person."""
    consent: bool
    """Whether the judge agreed."""
    items: list[ItemAnswers]
    """What was answered."""


# -- What people said in a survey: values, tests, agreement, and what was left out.


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
    """Pearson's correlation of the values; None where one of the two does not vary."""
    spearman: float | None
    """Spearman's correlation of the ranks."""
    kendall: float | None
    """Tau b."""


class SurveyResults(VersionedRecord):
    """The content of a survey's results.json."""

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
    """Answers to each question."""
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
