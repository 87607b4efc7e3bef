"""A paper's table with our numbers beside the printed ones, and what becomes of its claims."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from nextword.results.records.measured_values import Environment, Goal
from nextword.runtime.files import Record, VersionedRecord

OLD_OUTCOMES = {"held": "supported", "not held": "not supported", "undecided": "inconclusive"}
"""Outcomes as earlier versions wrote them."""

Scale = Literal["small", "pretrained", "paper"]
"""Size of an experiment: models trained in minutes, a small pretrained model, or the paper's own models and data."""

Outcome = Literal["supported", "not supported", "inconclusive", "not testable"]
"""Outcome of a claim. "inconclusive": the interval of the difference includes zero, both are equal, or there is one
seed only. "not testable": at this scale, for a reason that is given."""

ReadOutcome = Annotated[Outcome, BeforeValidator(lambda read: OLD_OUTCOMES.get(read, read))]
"""An outcome in a record, which may be of an earlier version."""

NO_SEED = "-"
"""Seed of a number that no training gave."""


class ReproducedColumn(Record):
    """A column, as the paper prints it."""

    title: str
    """Its heading."""
    group: str = ""
    """The heading over several columns."""
    unit: str = ""
    """Unit of both numbers."""
    better: Goal | None = None
    """Which way is good."""


class ReproducedCell(Record):
    """A printed number and ours."""

    printed: float | str | None = None
    """The paper's; None: the cell is empty there."""
    spread: float | None = None
    """What is printed after "±"."""
    value: float | str | None = None
    """Ours, the mean over seeds, in the paper's unit; None: there is none, and ``missing`` says why."""
    low: float | None = None
    """Lower end of its 95 % interval: Student's over seeds; with one seed, that of the measurement."""
    high: float | None = None
    """Upper end."""
    by_seed: dict[str, float] = Field(default={})
    """Our values by the training seed."""
    missing: str | None = None
    """Why there is no number of ours."""


class ReproducedRow(Record):
    """A row of the table."""

    title: str
    """As printed."""
    cells: list[ReproducedCell]
    """In the order of the columns."""
    note: str | None = None
    """What a reader must know of it."""


class JudgedComparison(Record):
    """Two cells of a claim, the first of which is to be better."""

    first: str
    """The row that is to be better; "ROW over OTHER ROW": its gain over that one."""
    second: str
    """The other row, its gain, or a number."""
    column: str
    """What was compared, with both columns where they differ."""
    outcome: ReadOutcome
    """What came out."""
    difference: float | None = None
    """The first less the second, in the paper's unit, the mean over seeds; where people's value is the goal, how much
    nearer the first is. None: a number is missing."""
    low: float | None = None
    """Lower end of its 95 % interval over seeds, each of which gives one difference; None with one seed."""
    high: float | None = None
    """Upper end."""
    seeds: int = Field(default=0, ge=0)
    """Differences that it is the mean of."""
    printed: float | None = None
    """The same difference in the paper's numbers."""


class JudgedClaim(Record):
    """What the paper says of the table, and what we found."""

    text: str
    """The claim."""
    place: str | None = None
    """Where the paper says it."""
    headline: bool = False
    """Whether it is one of the paper's main claims."""
    outcome: ReadOutcome
    """"supported" where enough comparisons are, "not supported" where too many are not, else "inconclusive"; or "not
    testable"."""
    reason: str
    """One line: the numbers that decided it, or why it cannot be tested."""
    comparisons: list[JudgedComparison] = Field(default=[])
    """One by one."""
    needed: int | None = None
    """How many of them must be supported; None: all that have numbers."""
    note: str | None = None
    """What a reader must know, such as that the printed numbers do not bear it out."""


class RanExperiment(Record):
    """A comparison that gave the numbers."""

    name: str
    """As experiments.toml calls it."""
    recipe: str
    """The recipe."""
    command: str
    """The command that runs it alone."""
    task: str
    """Its task."""
    seeds: list[int]
    """Seeds of the trainings."""
    start: str
    """What all methods began from."""
    data: str
    """What it was trained and measured on."""
    minutes: float | None = None
    """Hours of training, measuring and writing, without the start."""
    start_minutes: float | None = None
    """Hours of making the start; None where it was given."""
    report: str | None = None
    """Its page, relative to the folder of all tables; None: not kept."""


class ReproducedTable(VersionedRecord):
    """One table: the content of its table.json."""

    kind: Literal["reproduce"] = "reproduce"
    """What sort of run this is."""
    name: str
    """PAPER/TABLE."""
    paper: str
    """The paper's title, authors and venue."""
    title: str
    """What the table shows."""
    place: str
    """Where it stands in the paper."""
    scale: Scale
    """At which scale our numbers were measured."""
    columns: list[ReproducedColumn] = Field(default=[])
    """From left to right."""
    rows: list[ReproducedRow] = Field(default=[])
    """From top to bottom; none where the table is a picture or texts, which ``shown_in`` says."""
    claims: list[JudgedClaim] = Field(default=[])
    """What the paper says of it."""
    shown_in: str | None = None
    """Where the picture or the texts are: a page, relative to the folder of all tables, with the section's anchor."""
    note: str | None = None
    """What a reader must know at any scale."""
    differs: list[str] = Field(default=[])
    """What stands for the paper's own models, data, methods and judges at this scale: a sentence each."""
    experiments: list[RanExperiment] = Field(default=[])
    """What gave the numbers."""
    command: str
    """The command that makes this table again."""
    environment: Environment
    """Where and when."""
