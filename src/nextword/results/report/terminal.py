"""Show tables of a report in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from nextword.results.report import table as tables
from nextword.results.report.table import Cell

FEWER = "\N{DAGGER}"
"""Mark of a value that is a mean over fewer seeds than requested."""


def framed(
    title: str | Text | None,
    headers: Iterable[Any] = (),
    rows: Iterable[Iterable[Any]] = (),
    caption: str | Text | None = None,
    **looks: Any,
) -> Table:
    """Make a framed rich table. ``looks`` are further arguments of rich's ``Table``."""
    looks = {"padding": (0, 1, 0, 0), "pad_edge": False, **looks}
    table = Table(*headers, title=title, caption=caption, box=box.SIMPLE_HEAD, **looks)
    for row in rows:
        table.add_row(*row)
    return table


def right(*headings: str) -> list[Column]:
    """Right-aligned columns for numbers."""
    return [Column(heading, justify="right") for heading in headings]


def marked(cell: Cell) -> Text:
    """Format a value: the best of its column is bold with a star; a mean over fewer seeds than requested has ``†``."""
    # a value without a mark gets a space instead, so that digits are aligned
    return Text(f"{cell.text}*", style="bold") if cell.best else Text(f"{cell.text}{FEWER if cell.lacking else ' '}")


def fitted(
    table: tables.ReportTable, title: str, caption: Text, heading: Callable[[tables.Column], str]
) -> FittedTable:
    """Fit the ``main`` columns of ``table`` to the terminal. ``heading`` returns the heading of a column."""
    whole = table.main

    def part(first: int, last: int) -> Table:
        shown = whole.of_columns(range(first, last))
        below = caption if last == len(whole.columns) else None
        drawn = framed(None if first else title, caption=below or None, padding=(0, 0))
        add_names(drawn, "method", [row.label for row in shown.rows])
        for column in shown.columns:
            drawn.add_column(Text(heading(column)), justify="right", no_wrap=True)
        for block in shown.blocks:
            if block.title:
                drawn.add_section()
                drawn.add_row(Text(block.title, style="dim"))
            for row in block.rows:
                # Text and not str, because a label may contain square brackets, which rich would read as markup
                drawn.add_row(Text(f"{row.label}{FEWER if row.lacking else ''}"), *map(marked, row.cells))
            if block.human is not None:
                drawn.add_section()
                drawn.add_row(Text(block.human.label), *map(marked, block.human.cells))
        return drawn

    return FittedTable(part, len(whole.columns))


# -- A table that is split into several tables, one below the other, if the terminal is too narrow.

LONGEST_NAME = 32
"""If no row name is wider than this number of characters, row names are not broken."""


class FittedTable:
    """Columns, split into as few tables as fit the terminal. Each table begins with the row names.

    A column is as wide as its longest word. Headings have one word per line, and numbers have no spaces.

    Args:
        part: Function that makes the table of the columns from one index to another (exclusive).
        columns: Number of columns, without the names.
    """

    def __init__(self, part: Callable[[int, int], Table], columns: int) -> None:
        self.part = part
        self.columns = columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield tables that fit. If a single column does not fit, yield one table per column."""
        unlimited = options.update(max_width=10_000)  # a measured width is never larger than the given maximum
        for count in range(1, max(1, self.columns) + 1):
            ends = [round(self.columns * i / count) for i in range(count + 1)]
            tables = [self.part(first, last) for first, last in pairwise(ends)]
            if all(Measurement.get(console, unlimited, table).minimum <= options.max_width for table in tables):
                break
        yield from tables


def add_names(table: Table, title: str, names: list[str]) -> None:
    """Add a column ``title`` with the row ``names``. They are broken only if one is wider than ``LONGEST_NAME``."""
    longest = max(map(cell_len, names), default=0)
    whole = longest <= LONGEST_NAME
    table.add_column(title, no_wrap=whole, overflow="fold", min_width=longest if whole else None)
