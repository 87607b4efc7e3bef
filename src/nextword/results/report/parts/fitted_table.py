"""A table for the terminal that is cut into several, below each other, where the terminal is too narrow for one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table

LONGEST_NAME = 32
"""Characters of a row's name that are never broken."""


class FittedTable:
    """Columns in as few tables as the terminal has room for; each begins with the names of the rows.

    A column is as wide as the longest word in it: headings stand a word a line, numbers have no spaces.

    Args:
        part: Makes the table of the columns from the first number up to, not including, the second.
        columns: How many columns there are, the names not counted.
    """

    def __init__(self, part: Callable[[int, int], Table], columns: int) -> None:
        self.part = part
        self.columns = columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Tables that fit; where a column alone does not, one table a column."""
        unlimited = options.update(max_width=10_000)  # a measurement never exceeds the room that it is told of
        for count in range(1, max(1, self.columns) + 1):
            ends = [round(self.columns * i / count) for i in range(count + 1)]
            tables = [self.part(first, last) for first, last in pairwise(ends)]
            if all(Measurement.get(console, unlimited, table).minimum <= options.max_width for table in tables):
                break
        yield from tables


def add_names(table: Table, title: str, names: list[str]) -> None:
    """Adds the column of names, which are broken only where one is very long."""
    longest = max(map(cell_len, names), default=0)
    whole = longest <= LONGEST_NAME
    table.add_column(title, no_wrap=whole, overflow="fold", min_width=longest if whole else None)
