"""A paper as data: its tables and figures with the printed numbers, what stands for each cell here, and its claims.

One TOML file a paper, in ``papers/``. A table of it:

    [tables.table-1]
    title = "Ambiguous Template"
    place = "section 6.1"
    experiment = "ambiguous"

    [[tables.table-1.columns]]
    title = "Acc@2"
    group = "Full"
    unit = "%"
    measure = "acc@2"
    factor = 100
    better = "higher"

    [[tables.table-1.rows]]
    title = "GPT-2 small, HistAlign"
    method = "cache (HistAlign)"
    values = [92.3]

    [[tables.table-1.claims]]
    text = "HistAlign puts both words on top more often than TRIME."
    comparisons = [{ row = "GPT-2 small, HistAlign", than = ["GPT-2 small, TRIME"], column = ["Full: Acc@2"] }]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from itertools import product
from math import isnan
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from nextword.results.records.reproduced_table import Scale
from nextword.settings.config import Settings, validated
from nextword.settings.overrides import parsed
from nextword.settings.registry import did_you_mean

FOLDER = resources.files("nextword.experiments.reproduction") / "papers"
"""Where the papers lie."""

Part = TypeVar("Part")


class Address(Settings):
    """Where a number lies among the results of an experiment. A table, its columns and its rows each say a part."""

    experiment: str | None = None
    """Name in experiments.toml."""
    method: str | None = None
    """Label of the method in the experiment; "human": the human references."""
    decoding: str | None = None
    """Title of the decoding whose texts were measured, such as "top-k 3"; "": what was measured of the model itself."""
    measure: str | None = None
    """Key of what was measured, such as "acc@2"; or one of these:

    - "cost.NAME": what the method cost (parameters, ms_per_step, train_seconds).
    - "data.NAME": how the task describes its data.
    - "setting.PATH": a setting as a recipe has it (training.learning_rate, task.start.n_layer).
    - "length.training": how long a training is, in steps or epochs as the recipe counts it.
    - "batch.training": rows of one update.
    - "ratio.PATH/PATH": one setting over another.
    - "always.WORDS": these words, for what is the same in every recipe and therefore no setting.
    - "duel.METHOD": measures that are better than that method's, as "won-lost".
    - "words.joint.N", "words.cache_only.N": the first words of the first seed after the N-th example prompt.
    - "ranking.wins", "ranking.losses": duels that the method wins or loses against those of ``among``.
    """
    among: tuple[str, ...] | None = None
    """Methods whose duels a ranking counts; None: all of the experiment."""
    factor: float | None = None
    """What our number is multiplied with to be in the paper's unit; None: 1."""
    plus: str | None = None
    """Another experiment whose number of the same address is added, where a paper counts over two data sets."""

    def within(self, outer: Address) -> Address:
        """This address with the parts that it leaves open taken from another."""
        mine = self.model_dump(include=set(Address.model_fields), exclude_none=True)
        return Address(**{**outer.model_dump(include=set(Address.model_fields)), **mine})


class PaperColumn(Address):
    """A column of a printed table."""

    title: str
    """As printed."""
    group: str = ""
    """The heading over several columns."""
    unit: str = ""
    """Unit of the printed numbers: "%", "tokens", ..."""
    better: Literal["higher", "lower", "human"] | None = None
    """Which way is good; "human": near to people's value."""

    @property
    def name(self) -> str:
        """What claims call it: "GROUP: TITLE", or the title alone where there is no group."""
        return f"{self.group}: {self.title}" if self.group else self.title


class PaperRow(Address):
    """A row of a printed table."""

    title: str
    """As printed, with the heading over it: "GPT-2 small, TRIME"."""
    values: list[float | str] = Field(default=[])
    """The printed numbers in the order of the columns, text where a cell holds text; nan: the cell is empty."""
    spreads: list[float] = Field(default=[])
    """What is printed after "±", in the same order; nan: nothing."""
    cells: dict[str, Address] = Field(default={})
    """Parts of the address that differ in some columns, by name of a column or by heading over several. Example:
    ``{"Cache-Only" = {method = "softmax, cache at test time"}}``."""
    elsewhere: dict[str, float] = Field(default={})
    """Our numbers by name of a column that no experiment gives, such as those of a benchmark; the note says whose."""
    only: Scale | None = None
    """The only scale at which the row is there, such as that of a control; None: every scale."""
    note: str | None = None
    """What a reader must know of this row here."""


class Comparison(Settings):
    """Two cells, the first of which is to be better."""

    row: str
    """Title of the row that is to be better."""
    than: str | float
    """Title of the other row; or a number."""
    column: str
    """Name of the column; its ``better`` says which way."""
    than_column: str | None = None
    """Name of the other cell's column; None: the same."""
    better: Literal["higher", "lower", "human"] | None = None
    """Which way the first is to be better; None: the column's way."""
    over: str | None = None
    """Title of a row that is taken from the first: its gain over that one is compared."""
    than_over: str | None = None
    """The same of the other; None: that of ``over``."""
    times: float = 1.0
    """What the other is multiplied with, such as 1.1 for "at most a tenth more"."""


class Claim(Settings):
    """What a paper says that its table shows."""

    text: str
    """In one sentence, in the paper's terms."""
    place: str | None = None
    """Where it is said, such as "section 6.1" or "abstract"; None: where the table is discussed."""
    headline: bool = False
    """Whether it is one of the paper's main claims, which docs/records/claims.md lists."""
    comparisons: list[Comparison] = Field(default=[])
    """What must come out for the claim to hold. In a file ``than`` and ``column`` may be lists: each with each."""
    at_least: int | None = None
    """How many of them must come out; None: all."""
    not_testable: dict[str, str] = Field(default={})
    """Why none of its comparisons has numbers, by scale. Where a user's judge gives some, it is
    tested."""
    note: str | None = None
    """What a reader must know, such as that the printed numbers do not bear it out."""

    @model_validator(mode="before")
    @classmethod
    def _lists_each_with_each(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("comparisons"), list):
            return given
        return {**given, "comparisons": [one for several in given["comparisons"] for one in _each_with_each(several)]}

    @model_validator(mode="after")
    def _at_least_so_many(self) -> Self:
        if self.at_least is not None and not 0 < self.at_least <= len(self.comparisons):
            raise ValueError(f"at_least: must be from 1 to {len(self.comparisons)} ({self.at_least} given)")
        return self


class PaperTable(Address):
    """A table, figure or human evaluation of a paper."""

    title: str
    """What it shows."""
    place: str
    """Where it stands: its section or appendix. Pages are not given: the texts at hand have no page breaks."""
    kind: Literal["table", "figure", "texts", "settings", "human"] = "table"
    """Numbers; a drawing; texts side by side; hyper-parameters; or what people said of texts."""
    section: str | None = None
    """Section of the experiment's report that shows it: "classes", "examples", "groups", "written"; None: a table of
    its own."""
    note: str | None = None
    """What a reader must know at any scale; what stands for the paper's own at one is in experiments.toml."""
    columns: list[PaperColumn] = Field(default=[])
    """From left to right."""
    rows: list[PaperRow] = Field(default=[])
    """From top to bottom."""
    claims: list[Claim] = Field(default=[])
    """What the paper says of it."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for title in _repeated(column.name for column in self.columns):
            raise ValueError(f"columns: '{title}' is there twice")
        for title in _repeated(row.title for row in self.rows):
            raise ValueError(f"rows: '{title}' is there twice")
        for row in self.rows:
            for name in ("values", "spreads"):
                count = len(getattr(row, name))
                if count not in {0, len(self.columns)}:
                    raise ValueError(f"rows, '{row.title}': {count} {name} for {len(self.columns)} columns")
            columns = {one.name: one for one in self.columns}
            for name in row.cells:
                _named({**columns, **{one.group: one for one in self.columns}}, name, "column")
            for name in row.elsewhere:
                _named(columns, name, "column")
        for claim in self.claims:
            for one in claim.comparisons:
                self.column(one.column)
                for other in (one.row, one.than, one.over, one.than_over):
                    if isinstance(other, str) and self.row(other).only:
                        raise ValueError(f"claims: row '{other}' is not there at every scale")
                if one.than_column is not None:
                    self.column(one.than_column)
        return self

    def at(self, scale: Scale) -> PaperTable:
        """The table with the rows that it has at a scale."""
        return self.model_copy(update={"rows": [row for row in self.rows if row.only in {None, scale}]})

    def row(self, title: str) -> PaperRow:
        """The row of this title; ValueError where there is none."""
        return _named({row.title: row for row in self.rows}, title, "row")

    def column(self, name: str) -> PaperColumn:
        """The column of this name; ValueError where there is none."""
        return _named({column.name: column for column in self.columns}, name, "column")

    def address(self, row: PaperRow, column: PaperColumn) -> Address:
        """Where a cell's number lies: the row's word goes before the column's, and that before the table's."""
        own = row.cells.get(column.name) or row.cells.get(column.group) or Address()
        return own.within(row.within(column.within(self)))

    def printed(self, row: PaperRow, column: PaperColumn) -> float | str | None:
        """The paper's value of a cell; ``None``: the cell is empty."""
        if not row.values:
            return None
        value = row.values[self.columns.index(column)]
        return None if isinstance(value, float) and isnan(value) else value

    @property
    def places(self) -> list[tuple[PaperRow, PaperColumn]]:
        """All cells, row by row."""
        return [(row, column) for row in self.rows for column in self.columns]

    @property
    def experiments(self) -> list[str]:
        """The experiments that fill it, each once."""
        cells = [self.address(*place) for place in self.places] or [self]
        names = [name for cell in cells for name in (cell.experiment, cell.plus)]
        return list(dict.fromkeys(name for name in names if name is not None))


class Paper(Settings):
    """One paper: the content of a file in ``papers/``."""

    title: str
    """Its title."""
    authors: str
    """Who wrote it."""
    venue: str
    """Where it appeared."""
    tables: dict[str, PaperTable]
    """By name: "table-1", "figure-3", "table-1a"."""


def names() -> list[str]:
    """The papers that are known, as commands name them."""
    return sorted(entry.name.removesuffix(".toml") for entry in FOLDER.iterdir() if entry.name.endswith(".toml"))


@cache
def load_paper(name: str) -> Paper:
    """A paper by its name.

    Raises:
        ValueError: There is no such paper; the nearest known name is given.
    """
    known = names()
    if name not in known:
        raise ValueError(f"no paper '{name}'.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    return validated(Paper, parsed((FOLDER / f"{name}.toml").read_bytes(), f"{name}.toml"))


def find_table(name: str) -> PaperTable:
    """A table by the paper's name and its own: "histalign/table-1".

    Raises:
        ValueError: No such paper or table; the nearest known name is given.
    """
    paper, _, own = name.partition("/")
    tables: Mapping[str, PaperTable] = load_paper(paper).tables
    if own not in tables:
        raise ValueError(f"no table '{own}' in {paper}.{did_you_mean(own, tables)} Known: {', '.join(tables)}.")
    return tables[own]


def listed_tables(name: str) -> str:
    """The tables of a paper as a Markdown list, as docs/records/paper-tables.md has it."""
    tables = load_paper(name).tables
    return "\n".join(f"- `{name}/{own}` ({table.place}): {table.title}." for own, table in tables.items())


def _each_with_each(given: Any) -> list[Any]:
    """A comparison whose ``than`` or ``column`` is a list, as one for each pair of them."""
    if not isinstance(given, dict):
        return [given]
    several = {name: given[name] if isinstance(given[name], list) else [given[name]] for name in given}
    return [dict(zip(several, one, strict=True)) for one in product(*several.values())]


def _named(known: Mapping[str, Part], name: str, kind: str) -> Part:
    if name not in known:
        raise ValueError(f"no {kind} '{name}'.{did_you_mean(name, known)}")
    return known[name]


def _repeated(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]
