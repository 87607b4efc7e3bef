"""Records of a paper's table with our numbers next to the printed ones, and the outcomes of its claims."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from nextword.results.records.measured_values import Environment, Goal
from nextword.runtime.files import Record, VersionedRecord

OLD_OUTCOMES = {"held": "supported", "not held": "not supported", "undecided": "inconclusive"}
"""Outcomes in records of earlier versions, with their current names."""

Scale = Literal["small", "pretrained", "paper"]
"""Size of an experiment: models trained in minutes ("small"), a small pretrained model ("pretrained"), or the models
and data of the paper ("paper")."""

Outcome = Literal["supported", "not supported", "inconclusive", "not testable"]
"""Outcome of a claim or comparison. "inconclusive": the interval of the difference includes zero, both values are
equal, or there is only one seed. "not testable": a number is missing, or the scale cannot test the claim."""

ReadOutcome = Annotated[Outcome, BeforeValidator(lambda read: OLD_OUTCOMES.get(read, read))]
"""An outcome in a record, possibly of an earlier version."""

NO_SEED = "-"
"""Seed of a number that does not depend on training."""


class ReproducedColumn(Record):
    """A column of the printed table."""

    title: str
    """Heading."""
    group: str = ""
    """Heading over several columns."""
    unit: str = ""
    """Unit of the paper's numbers and of ours."""
    better: Goal | None = None
    """Which values are better; None: unknown."""


class ReproducedCell(Record):
    """A cell with the printed number and ours."""

    printed: float | str | None = None
    """The paper's number; None: the cell is empty."""
    spread: float | None = None
    """The paper's number after "±"; None if there is none."""
    value: float | str | None = None
    """Our number, which is the mean over seeds, in the paper's unit. None: ``missing`` has the reason."""
    low: float | None = None
    """Lower end of our number's 95 % interval: Student's interval over seeds, or with one seed the measurement's."""
    high: float | None = None
    """Upper end of the interval."""
    by_seed: dict[str, float] = Field(default={})
    """Our values by training seed."""
    missing: str | None = None
    """Reason why we have no number."""


class ReproducedRow(Record):
    """A row of the table."""

    title: str
    """Title as printed."""
    cells: list[ReproducedCell]
    """Cells in the order of the columns."""
    note: str | None = None
    """Note for the reader."""


class JudgedComparison(Record):
    """One comparison of a claim: two cells of the table, of which the first should be better."""

    first: str
    """Row that should be better. "ROW over OTHER ROW" means the gain of ROW over OTHER ROW."""
    second: str
    """Row that should be worse, a gain ("ROW over OTHER ROW"), a multiple of either ("2 × ROW"), or a number."""
    column: str
    """Column of both cells, or "COLUMN against OTHER COLUMN"."""
    outcome: ReadOutcome
    """Outcome."""
    difference: float | None = None
    """``first`` minus ``second`` in the paper's unit, as a mean over seeds. If values should be close to the human
    value: the distance of ``second`` from this value minus that of ``first``. None if a number is missing."""
    low: float | None = None
    """Lower end of the 95 % interval of the difference over seeds; None with one seed."""
    high: float | None = None
    """Upper end of the interval."""
    seeds: int = Field(default=0, ge=0)
    """Number of seeds over which ``difference`` is the mean; 0 if the numbers do not depend on training."""
    printed: float | None = None
    """Like ``difference``, but computed from the paper's numbers."""


class JudgedClaim(Record):
    """A claim of the paper about the table, and its outcome here."""

    text: str
    """The claim."""
    place: str | None = None
    """Place in the paper."""
    headline: bool = False
    """Whether the claim is one of the paper's main claims."""
    outcome: ReadOutcome
    """"supported" if at least ``needed`` comparisons are supported; "inconclusive" if inconclusive comparisons (and,
    unless ``needed`` is None, those without numbers) may still make up this number; otherwise "not supported". "not
    testable" if no comparison has numbers."""
    reason: str
    """One line with the decisive numbers, or the reason why the claim cannot be tested."""
    comparisons: list[JudgedComparison] = Field(default=[])
    """The comparisons."""
    needed: int | None = None
    """Number of comparisons that must be supported. None: all comparisons that have numbers."""
    note: str | None = None
    """Note, for instance that the printed numbers do not support the claim."""


class RanExperiment(Record):
    """An experiment that gave numbers of a table."""

    name: str
    """Name in experiments.toml."""
    recipe: str
    """Name of the recipe."""
    command: str
    """Command that runs this experiment alone."""
    task: str
    """Name of the task."""
    seeds: list[int]
    """Training seeds."""
    start: str
    """Initial checkpoint of all methods."""
    data: str
    """Data of the experiment."""
    minutes: float | None = None
    """Minutes of training, evaluation and generation, without the initial checkpoint."""
    start_minutes: float | None = None
    """Minutes for the initial checkpoint; None if the checkpoint was given."""
    report: str | None = None
    """Path of the experiment's report, relative to the folder of all tables. None if there is no report."""


class ReproducedTable(VersionedRecord):
    """Record of a reproduced table: the content of its table.json."""

    kind: Literal["reproduce"] = "reproduce"
    """Kind of record."""
    name: str
    """Name of the table, as PAPER/TABLE."""
    paper: str
    """The paper's title, authors and venue."""
    title: str
    """What the table shows."""
    place: str
    """Place in the paper."""
    scale: Scale
    """Scale of the experiments for our numbers."""
    columns: list[ReproducedColumn] = Field(default=[])
    """Columns from left to right."""
    rows: list[ReproducedRow] = Field(default=[])
    """Rows from top to bottom. Empty if an image or texts (``shown_in``) take the place of a table."""
    claims: list[JudgedClaim] = Field(default=[])
    """Claims of the paper about the table."""
    shown_in: str | None = None
    """Page and anchor of the image or texts, relative to the folder of all tables."""
    note: str | None = None
    """Note for the reader at any scale."""
    differs: list[str] = Field(default=[])
    """Sentences that say what is used at this scale instead of the paper's models, data, methods and model-based
    metrics."""
    experiments: list[RanExperiment] = Field(default=[])
    """Experiments from which the table has its numbers."""
    command: str
    """Command that reproduces this table."""
    environment: Environment
    """Environment and time."""
