"""A paper as data: its tables with the printed numbers, where our number of each cell comes from, and its claims.

Each paper is a TOML file in ``papers/``. Example of a table:

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
from collections.abc import Iterable, Mapping, Sequence
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
"""Folder of the papers' TOML files."""

Part = TypeVar("Part")
Value = TypeVar("Value", bound=float | str)


class Address(Settings):
    """Address of a number in the results of an experiment. The table, its columns and its rows each give a part."""

    experiment: str | None = None
    """Name of the experiment."""
    method: str | None = None
    """Label of the method; "human": the human references."""
    decoding: str | None = None
    """Title of the decoding whose texts were evaluated, such as "top-k 3"; "": measurements of the model itself."""
    measure: str | None = None
    """Key of a metric, such as "acc@2", or one of these:

    - "cost.NAME": a cost of the method (parameters, ms_per_step, train_seconds).
    - "data.NAME": an entry of the task's description of its data.
    - "setting.PATH": a setting of the recipe (training.learning_rate, task.start.n_layer).
    - "length.training": length of the training, in steps or epochs, as in the recipe.
    - "batch.training": rows per optimiser step.
    - "ratio.PATH/PATH": one setting divided by another.
    - "always.WORDS": these words, for what is the same in every recipe and therefore not a setting.
    - "duel.METHOD": number of metrics in which the method is better than METHOD, and worse, as "won-lost".
    - "words.joint.N", "words.cache_only.N": the top predictions of the first seed after the N-th example prompt.
    - "ranking.wins", "ranking.losses": pairwise comparisons that the method wins or loses against those of ``among``.
    """
    among: tuple[str, ...] | None = None
    """Methods among which a ranking is made; None: all of the experiment."""
    factor: float | None = None
    """Factor that converts our number to the paper's unit; None: 1."""
    plus: str | None = None
    """Another experiment whose number at the same address is added, if a paper counts over two data sets."""

    def within(self, outer: Address) -> Address:
        """This address, with its missing parts taken from ``outer``."""
        mine = self.model_dump(include=set(Address.model_fields), exclude_none=True)
        return Address(**{**outer.model_dump(include=set(Address.model_fields)), **mine})


class PaperColumn(Address):
    """A column of a printed table."""

    title: str
    """Title as printed."""
    group: str = ""
    """Heading over several columns."""
    unit: str = ""
    """Unit of the printed numbers: "%", "tokens", ..."""
    better: Literal["higher", "lower", "human"] | None = None
    """Better direction; "human": close to the human value."""
    only: Scale | None = None
    """The only scale that has this column, which the paper does not have; None: every scale. Such columns are last."""

    @property
    def name(self) -> str:
        """Name in claims: "GROUP: TITLE", or the title if there is no group."""
        return f"{self.group}: {self.title}" if self.group else self.title


class PaperRow(Address):
    """A row of a printed table."""

    title: str
    """Title as printed, with the heading above it: "GPT-2 small, TRIME"."""
    values: list[float | str] = Field(default=[])
    """Printed values in the order of the columns, numbers or text; nan: the cell is empty."""
    spreads: list[float] = Field(default=[])
    """Printed values after "±", in the same order; nan: none."""
    cells: dict[str, Address] = Field(default={})
    """Parts of the address that differ in some columns, by a column's name or a heading over several. Example:
    ``{"Cache-Only" = {method = "softmax, cache at test time"}}``."""
    elsewhere: dict[str, float] = Field(default={})
    """Our numbers that no experiment provides, such as those of a benchmark, by column name; the note names their
    source."""
    only: Scale | None = None
    """The only scale that has this row, for instance a control; None: every scale."""
    note: str | None = None
    """Note on this row for the reader."""


class Comparison(Settings):
    """A comparison of two cells; the first should be better."""

    row: str
    """Title of the row that should be better."""
    than: str | float
    """Title of the other row, or a number."""
    column: str
    """Name of the column; its ``better`` is the direction."""
    than_column: str | None = None
    """Name of the other cell's column; None: the same column."""
    better: Literal["higher", "lower", "human"] | None = None
    """Direction in which the first should be better; None: that of the column."""
    over: str | None = None
    """Title of a row that is subtracted from the first, to compare its gain over that row."""
    than_over: str | None = None
    """Title of the row that is subtracted from the other; None: that of ``over``."""
    times: float = 1.0
    """Factor of the other value, such as 1.1 for "at most a tenth more"."""


class Claim(Settings):
    """A claim of a paper about its table."""

    text: str
    """The claim in one sentence, in the paper's terms."""
    place: str | None = None
    """Place in the paper, such as "section 6.1" or "abstract"; None: where the table is discussed."""
    headline: bool = False
    """Whether it is a main claim of the paper, listed in docs/records/claims.md."""
    comparisons: list[Comparison] = Field(default=[])
    """Comparisons that must come out as claimed for the claim to be supported. In a file ``than`` and ``column`` may be
    lists, which mean all combinations."""
    at_least: int | None = None
    """Number of comparisons that must come out as claimed; None: all."""
    not_testable: dict[str, str] = Field(default={})
    """Reason why its comparisons have no numbers, by scale. If a user's model-based metric provides them, the claim is
    tested."""
    note: str | None = None
    """Note for the reader, for instance that the printed numbers do not support the claim."""

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
    """What the table shows."""
    place: str
    """Section or appendix of the table. Pages are not given, because our copies of the papers have no page breaks."""
    kind: Literal["table", "figure", "texts", "settings", "human"] = "table"
    """Kind: numbers, a drawing, texts side by side, hyper-parameters, or human judgements."""
    section: str | None = None
    """Section of the experiment's report that shows our version of the table: "classes", "examples", "groups",
    "written"; None: the table has a page of its own only."""
    note: str | None = None
    """Note for the reader at any scale. What replaces the paper's models and data at one scale is in
    experiments.toml."""
    columns: list[PaperColumn] = Field(default=[])
    """Columns from left to right."""
    rows: list[PaperRow] = Field(default=[])
    """Rows from top to bottom."""
    claims: list[Claim] = Field(default=[])
    """Claims of the paper about the table."""
    at_scale: dict[Scale, Address] = Field(default={})
    """Parts of the table's address that differ at a scale, such as another experiment."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for title in _repeated(column.name for column in self.columns):
            raise ValueError(f"columns: '{title}' must occur once (occurs twice)")
        for title in _repeated(row.title for row in self.rows):
            raise ValueError(f"rows: '{title}' must occur once (occurs twice)")
        printed = [column for column in self.columns if column.only is None]
        if self.columns[: len(printed)] != printed:
            raise ValueError("columns: those of every scale must be first (they are not)")
        for row in self.rows:
            for name in ("values", "spreads"):
                count = len(getattr(row, name))
                if count not in {0, len(printed)}:
                    raise ValueError(
                        f"rows, '{row.title}': must have {len(printed)} {name}, one per column ({count} given)"
                    )
            columns = {one.name: one for one in self.columns}
            for name in row.cells:
                _named({**columns, **{one.group: one for one in self.columns}}, name, "column")
            for name in row.elsewhere:
                _named(columns, name, "column")
        for claim in self.claims:
            for one in claim.comparisons:
                for name in filter(None, (one.column, one.than_column)):
                    if self.column(name).only:
                        raise ValueError(f"claims: column '{name}' must exist at every scale (it does not)")
                for other in (one.row, one.than, one.over, one.than_over):
                    if isinstance(other, str) and self.row(other).only:
                        raise ValueError(f"claims: row '{other}' must exist at every scale (it does not)")
        return self

    def at(self, scale: Scale) -> PaperTable:
        """A copy of the table with its address at ``scale``, and only the rows and columns that exist there."""
        rows = [row for row in self.rows if row.only in {None, scale}]
        columns = [column for column in self.columns if column.only in {None, scale}]
        address = self.at_scale.get(scale, Address()).within(self)
        return self.model_copy(update={"rows": rows, "columns": columns, **dict(address)})

    def row(self, title: str) -> PaperRow:
        """The row with this title; ValueError if there is none."""
        return _named({row.title: row for row in self.rows}, title, "row")

    def column(self, name: str) -> PaperColumn:
        """The column with this name; ValueError if there is none."""
        return _named({column.name: column for column in self.columns}, name, "column")

    def address(self, row: PaperRow, column: PaperColumn) -> Address:
        """Address of a cell's number: parts of the cell override the row's, then the column's, then the table's."""
        own = row.cells.get(column.name) or row.cells.get(column.group) or Address()
        return own.within(row.within(column.within(self)))

    def printed(self, row: PaperRow, column: PaperColumn) -> float | str | None:
        """The printed value of a cell; ``None`` if the cell is empty."""
        return self._printed(row.values, column)

    def spread(self, row: PaperRow, column: PaperColumn) -> float | None:
        """What is printed after "±" in a cell; ``None`` if there is nothing."""
        return self._printed(row.spreads, column)

    def _printed(self, values: Sequence[Value], column: PaperColumn) -> Value | None:
        if not values or column.only is not None:
            return None
        value = values[self.columns.index(column)]
        return None if isinstance(value, float) and isnan(value) else value

    @property
    def places(self) -> list[tuple[PaperRow, PaperColumn]]:
        """All cells, row by row, each as a pair of row and column."""
        return [(row, column) for row in self.rows for column in self.columns]

    @property
    def experiments(self) -> list[str]:
        """Names of the experiments that fill the table, each once."""
        cells = [self.address(*place) for place in self.places] or [self]
        names = [name for cell in cells for name in (cell.experiment, cell.plus)]
        return list(dict.fromkeys(name for name in names if name is not None))


class Paper(Settings):
    """A paper: the content of a file in ``papers/``."""

    title: str
    """Title."""
    authors: str
    """Authors."""
    venue: str
    """Venue."""
    tables: dict[str, PaperTable]
    """Tables by name: "table-1", "figure-3", "table-1a"."""


def names() -> list[str]:
    """Names of all papers."""
    return sorted(entry.name.removesuffix(".toml") for entry in FOLDER.iterdir() if entry.name.endswith(".toml"))


@cache
def load_paper(name: str) -> Paper:
    """Load a paper by its name.

    Raises:
        ValueError: If the name is unknown; the message suggests the nearest one.
    """
    known = names()
    if name not in known:
        raise ValueError(
            f"paper: must be a known one ('{name}' given).{did_you_mean(name, known)} Known: {', '.join(known)}."
        )
    return validated(Paper, parsed((FOLDER / f"{name}.toml").read_bytes(), f"{name}.toml"))


def find_table(name: str) -> PaperTable:
    """Find a table by its full name PAPER/TABLE, such as "histalign/table-1".

    Raises:
        ValueError: If the paper or table is unknown; the message suggests the nearest name.
    """
    paper, _, own = name.partition("/")
    tables: Mapping[str, PaperTable] = load_paper(paper).tables
    if own not in tables:
        raise ValueError(
            f"table: must be a table of {paper} ('{own}' given).{did_you_mean(own, tables)} Known: {', '.join(tables)}."
        )
    return tables[own]


def listed_tables(name: str) -> str:
    """The tables of a paper as a Markdown list, for docs/records/paper-tables.md."""
    tables = load_paper(name).tables
    return "\n".join(f"- `{name}/{own}` ({table.place}): {table.title}." for own, table in tables.items())


def _each_with_each(given: Any) -> list[Any]:
    """Expand a comparison whose ``than`` or ``column`` is a list into one per combination."""
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
