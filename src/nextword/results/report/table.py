"""Tables of reports, with columns, blocks of rows, and cells. Pages and the terminal show them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from nextword.results.records import Goal, Measure
from nextword.results.report import formats

if TYPE_CHECKING:
    from nextword.results.report.comparison.methods import Style

ARROWS = {"higher": "\N{UPWARDS ARROW}", "lower": "\N{DOWNWARDS ARROW}", "human": "\N{RIGHTWARDS ARROW}"}
"""Signs that say which values are better. The arrow to the right ("human") points to the human column."""

GOALS = {"higher": "higher is better", "lower": "lower is better", "human": "the closer to human the better"}
"""Which values are better, in words."""


@dataclass(frozen=True)
class Column:
    """A column: a metric, a cost or a system."""

    title: str
    group: str = ""
    """Heading over neighbouring columns; empty if there is none."""
    key: str = ""
    measure: Measure | None = None
    unit: str = ""
    """Full unit, shown as the column's full title."""
    short_unit: str = ""
    """Unit that is shown if the heading has space for it."""
    n: str = ""
    """Number of cases per value of the column, such as "n = 100"; empty for a cost."""
    hover: str = ""
    below: tuple[str, ...] = ()
    """Lines in small type under the title."""
    main: bool = True
    """Whether the column is shown in the terminal and in figures."""
    short: str = ""
    """Title of the column where the heading ``group`` is not shown."""
    metric: str = ""
    """Name of the metric that computes the values; empty if the column's key shows the name."""
    note: str = ""
    """Note for the reader, in addition to the metric's meaning."""
    show: Callable[[float], str] = formats.number

    @property
    def goal(self) -> Goal | None:
        """The goal of the column's metric, which says which values are better; None if unknown."""
        return self.measure.goal if self.measure else None

    @property
    def arrow(self) -> str:
        """The sign for ``goal``, one of ``ARROWS``; empty without a goal."""
        return ARROWS[self.goal] if self.goal else ""

    @property
    def goal_in_words(self) -> str:
        """The words for ``goal``, one of ``GOALS``; empty without a goal."""
        return GOALS[self.goal] if self.goal else ""


@dataclass(frozen=True)
class Cell:
    """A formatted value."""

    text: str = formats.NOTHING
    value: float | None = None
    """The number, or the mean over seeds."""
    numbers: tuple[float, ...] = ()
    """Values of all seeds that have a value."""
    seeds: tuple[str, ...] = ()
    """Values of all seeds, as text, if there are several."""
    interval: str = ""
    """95 % interval; empty if there is none."""
    spread: str = ""
    """Lowest and highest value over seeds, or with one seed the 95 % interval."""
    n: str = ""
    """Number of samples from which the value was computed, if these are not all samples."""
    best: bool = False
    lacking: str = ""
    """Text such as "2 of 3 seeds", if some seeds have no value. Such a cell is not marked as best."""
    reason: str = ""
    """Reason why there is no value, if known."""
    hover: str = ""
    below: tuple[str, ...] = ()
    """Lines in small type under the value."""


@dataclass(frozen=True)
class Row:
    """A row: a method, a metric, or the human references."""

    label: str
    cells: tuple[Cell, ...]
    style: Style | None = None
    """Style of the method in figures."""
    noted: bool = False
    """Whether there is a note on the method."""
    made_of: str = ""
    """Specs of a method."""
    below: tuple[str, ...] = ()
    """Lines in small type under the label."""
    lacking: str = ""
    """Text such as "2 of 3 seeds", if some seeds have no value. No cell of such a row is marked as best."""
    key: str = ""
    arrow: str = ""
    """Which values of a metric are better, as a sign."""
    hover: str = ""


@dataclass(frozen=True)
class Block:
    """A block of rows with an optional title, and below them the human references."""

    rows: tuple[Row, ...]
    title: str = ""
    human: Row | None = None
    """The human row, which is below the other rows."""


@dataclass(frozen=True)
class ReportTable:
    """Columns and blocks of rows, in reading order."""

    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    shows_groups: bool = True
    """Whether to show headings over columns."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows of all blocks, without the human rows."""
        return tuple(row for block in self.blocks for row in block.rows)

    @property
    def headings(self) -> list[tuple[str, int]]:
        """Headings over neighbouring columns, each with the number of its columns."""
        return formats.spans(column.group for column in self.columns)

    @property
    def starts(self) -> list[bool]:
        """For every column, whether it is the first one under its heading."""
        return [i == 0 or self.columns[i - 1].group != column.group for i, column in enumerate(self.columns)]

    @property
    def has_best(self) -> bool:
        """Whether any value is marked as the best."""
        return any(cell.best for row in self.rows for cell in row.cells)

    @property
    def has_lacking(self) -> bool:
        """Whether any cell lacks the values of some seeds."""
        return any(cell.lacking for row in self.rows for cell in row.cells)

    @property
    def main(self) -> ReportTable:
        """The table with only the columns that the terminal shows."""
        return self.of_columns([place for place, column in enumerate(self.columns) if column.main])

    def of_columns(self, places: Sequence[int]) -> ReportTable:
        """The table with only the columns at the indices ``places``."""

        def of(row: Row) -> Row:
            return replace(row, cells=tuple(row.cells[place] for place in places))

        blocks = tuple(
            replace(block, rows=tuple(map(of, block.rows)), human=None if block.human is None else of(block.human))
            for block in self.blocks
        )
        return replace(self, columns=tuple(self.columns[place] for place in places), blocks=blocks)

    def beside(self, other: ReportTable) -> ReportTable:
        """This table, followed by the columns of ``other``, which must have the same rows."""
        blocks = tuple(
            replace(
                one, rows=tuple(replace(a, cells=a.cells + b.cells) for a, b in zip(one.rows, two.rows, strict=True))
            )
            for one, two in zip(self.blocks, other.blocks, strict=True)
        )
        return replace(self, columns=self.columns + other.columns, blocks=blocks)

    def cut(self, joints: Sequence[int], fits: Callable[[int, int], bool]) -> list[ReportTable]:
        """Split the table into tables that fit, each with as many columns as possible.

        ``joints`` are the indices of the columns before which the table may be split, and then the number of columns.
        ``fits(first, end)`` says whether the columns from ``first`` to ``end`` (exclusive) fit into one table.
        """
        cuts = [0]
        for before, end in pairwise([0, *joints]):
            if before > cuts[-1] and not fits(cuts[-1], end):
                cuts.append(before)
        ends = [*cuts, len(self.columns)]
        return [self.of_columns(range(first, last)) for first, last in pairwise(ends) if first < last]


def best_of(goal: Goal | None, values: Mapping[str, float], human: float | None = None) -> set[str]:
    """Return the names of the best of ``values``, a mapping from name to value; empty if all values are equal.

    Also empty without ``goal``, or for the goal "human" without the value ``human``.
    """
    if goal is None or len(values) < 2 or (goal == "human" and human is None):
        return set()
    if goal == "human" and human is not None:
        costs = {name: abs(value - human) for name, value in values.items()}
    else:
        costs = {name: value if goal == "lower" else -value for name, value in values.items()}
    least = min(costs.values())
    found = {name for name, cost in costs.items() if math.isclose(cost, least, rel_tol=1e-9, abs_tol=1e-12)}
    return set() if len(found) == len(values) else found
