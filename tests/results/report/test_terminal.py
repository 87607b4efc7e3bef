from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from nextword.results.report.terminal import LONGEST_NAME, FittedTable, add_names

NAMES = ["softmax", "cache (TRIME as released)"]


def part(first: int, last: int) -> Table:
    table = Table()
    add_names(table, "method", NAMES)
    for column in range(first, last):
        table.add_column(f"m-{column}", no_wrap=True)
    for name in NAMES:
        table.add_row(name, *(f"{column}.25" for column in range(first, last)))
    return table


def printed(width: int, columns: int = 6) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(FittedTable(part, columns))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(("width", "tables"), [(200, 1), (80, 1), (60, 2), (40, 6)])
def test_tables_are_as_few_as_fit(width: int, tables: int) -> None:
    text = printed(width)
    assert text.count("method") == tables
    assert text.count(NAMES[1]) == tables, "a name is never broken"
    assert [f"m-{column}" in text for column in range(6)] == [True] * 6
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_a_very_long_name_is_broken() -> None:
    table = Table()
    add_names(table, "method", ["x" * (LONGEST_NAME + 1)])
    assert not table.columns[0].no_wrap
