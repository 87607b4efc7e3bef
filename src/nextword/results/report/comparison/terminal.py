"""The main numbers for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress, pairwise

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from nextword.results.records import Results
from nextword.results.report.comparison.main_table import Sheet, sheets
from nextword.results.report.comparison.method_tables import MethodCell, MethodColumn, cost_table, finding, main_table
from nextword.results.report.comparison.method_tables import MethodTable as Numbers
from nextword.results.report.comparison.methods import failures, methods
from nextword.results.report.evaluation_page import starred
from nextword.results.report.formats import NOTHING, framed

LONGEST_UNIT = 5
"""Characters of a unit that a column of the terminal has room for."""

FEWER = "\N{DAGGER}"
"""Marks a value over fewer seeds than were asked for."""


def results_table(results: Results) -> RenderableType:
    """The first metrics of each group and the costs of every method, the best of a column in bold with a star.

    Below it, where the methods wrote texts, what those of the first way of writing measure; the page has all of them.
    """
    written = sheets(results, methods(results))
    # A way of writing of which nothing was measured would be a table of names.
    tables = [_results(results), *([_texts(written)] if written and written[0].columns else [])]
    return Group(*tables, Text(finding(results)))


def _results(results: Results) -> FittedTable:
    metrics, costs = main_table(results), cost_table(results)
    every = (*metrics.columns, *costs.columns)
    shown = [column.main for column in every]
    columns = list(compress(every, shown))
    # Text, not str: a label may hold square brackets, which rich would read as markup.
    names = [Text(row.method.label) for row in metrics.rows]
    cells = [
        list(compress((*metric_row.cells, *cost_row.cells), shown))
        for metric_row, cost_row in zip(metrics.rows, costs.rows, strict=True)
    ]

    def part(first: int, last: int) -> Table:
        title = None if first else f"{results.task} (version {results.task_version})"
        caption = _caption(results, metrics, costs) or None
        table = framed(title, caption if last == len(columns) else None, padding=(0, 0))
        add_names(table, "method", [name.plain for name in names])
        for column in columns[first:last]:
            table.add_column(_heading(column), justify="right", no_wrap=True)
        for name, row in zip(names, cells, strict=True):
            table.add_row(name, *(_value(cell) for cell in row[first:last]))
        return table

    return FittedTable(part, len(columns))


def _caption(results: Results, metrics: Numbers, costs: Numbers) -> Text:
    seeds = len({run.seed for run in results.runs})
    said = [f"mean over {seeds} seeds"] if seeds > 1 else []
    first = "; ".join([*said, "* best of its column"] if metrics.has_best else said)
    failed = [f"{NOTHING} {run}: {reason}" for run, reason in failures(results)]
    return Text("\n".join([*([first] if first else []), *_lacking(metrics, costs), *failed]))


def _lacking(metrics: Numbers, costs: Numbers) -> Iterator[str]:
    """A line for each method with values over fewer seeds: which values, and how many seeds."""
    columns = (*metrics.columns, *costs.columns)
    for metric_row, cost_row in zip(metrics.rows, costs.rows, strict=True):
        cells = (*metric_row.cells, *cost_row.cells)
        shown = [(column, cell) for column, cell in zip(columns, cells, strict=True) if column.main and cell.seeds]
        found: dict[str, list[str]] = {}
        for column, cell in shown:
            if cell.lacking:
                setting = column.group.partition(", ")[2]
                found.setdefault(cell.lacking, []).append(f"{setting} {column.title}".strip())
        for count, titles in found.items():
            which = "" if len(titles) == len(shown) else f"{', '.join(titles)}, "
            yield f"{FEWER} {metric_row.method.label}: {which}{count} only"


def _texts(written: list[Sheet]) -> FittedTable:
    places = [place for place, column in enumerate(written[0].columns) if column.main]
    return FittedTable(lambda first, last: _texts_part(written, places, first, last), len(places))


def _texts_part(written: list[Sheet], places: list[int], first: int, last: int) -> Table:
    shown, chosen = written[0], places[first:last]
    caption = _texts_caption(written) if last == len(places) else None
    table = framed(None if first else f"Texts, {shown.title}", caption, padding=(0, 0))
    add_names(table, "method", [row.label for _, block in shown.blocks for row in block.rows])
    for column in (shown.columns[place] for place in chosen):
        unit = f"({column.short_unit})" if len(column.short_unit) <= LONGEST_UNIT else ""
        title = "\n".join(column.short.split())
        table.add_column(Text(f"{title}{column.arrow}\n{unit}".rstrip()), justify="right", no_wrap=True)
    for title, block in shown.blocks:
        if title:
            table.add_section()
            table.add_row(Text(title, style="dim"))
        for row in block.rows:
            mark = FEWER if row.lacking else ""
            table.add_row(Text(f"{row.label}{mark}"), *(starred(row.cells[place]) for place in chosen))
        if block.human is not None:
            table.add_section()
            table.add_row(Text(block.human.label), *(starred(block.human.cells[place]) for place in chosen))
    return table


def _texts_caption(written: list[Sheet]) -> Text:
    shown = written[0]
    said = ["mean over seeds"] if shown.several else []
    best = "* best of its column and block" if len(shown.tables) > 1 else "* best of its column"
    said += [best] if shown.has_best else []
    said += ["\N{RIGHTWARDS ARROW} the closer to human the better"] if shown.human else []
    lines = ["; ".join(said)] if said else []
    lacking = {row.label: row.lacking for table in shown.tables for row in table.rows if row.lacking}
    lines += [f"{FEWER} {label}: {count} only" for label, count in lacking.items()]
    lines += [f"in the report: {', '.join(['intervals', 'ranking', *(sheet.title for sheet in written[1:])])}"]
    return Text("\n".join(lines))


def _heading(column: MethodColumn) -> Text:
    # "Accuracy, cache only": the part behind the comma tells two columns apart. One word a line keeps them narrow.
    group, _, setting = column.group.partition(", ")
    above = setting or ("" if column.better or column.group == "Cost" else group.partition(" ")[0].lower())
    unit = f"({column.short_unit})" if column.short_unit and len(column.short_unit) <= LONGEST_UNIT else ""
    return Text("\n".join([*above.split(), *column.title.split(), unit]).rstrip())


def _value(cell: MethodCell) -> Text:
    # The place of the mark is kept free, so that the digits stay under each other.
    return Text(f"{cell.text}*", style="bold") if cell.best else Text(f"{cell.text}{FEWER if cell.lacking else ' '}")


# -- A table for the terminal that is cut into several, below each other, where the terminal is too narrow for one.

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
