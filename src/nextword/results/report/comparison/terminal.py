"""Tables of a comparison for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from nextword.results.records import Results
from nextword.results.report.comparison.main_table import Sheet, sheets
from nextword.results.report.comparison.method_tables import cost_table, finding, main_table
from nextword.results.report.comparison.methods import failures, methods
from nextword.results.report.formats import NOTHING
from nextword.results.report.table import Column, ReportTable
from nextword.results.report.terminal import FEWER, fitted

LONGEST_UNIT = 5
"""Maximum characters of a unit in a column."""


def results_table(results: Results) -> RenderableType:
    """Make a table with one row per method: the first metrics of each group, and the costs. Best values have a star.

    If the methods generated texts, a table of text metrics for the first decoding follows, and then the main result in
    sentences. The HTML page has all decodings.
    """
    measured = main_table(results)
    title = f"{results.task} (version {results.task_version})"
    shown = measured.beside(cost_table(results)).main
    tables = [fitted(shown, title, _caption(results, shown, measured.has_best), _heading)]
    written = sheets(results, methods(results))
    # without values for the first decoding, the table would have only names
    if written and written[0].table.columns:
        first = written[0]
        tables.append(fitted(first.table, f"Texts, {first.title}", _texts_caption(written), _texts_heading))
    return Group(*tables, Text(finding(results)))


def _caption(results: Results, shown: ReportTable, has_best: bool) -> Text:
    seeds = len({run.seed for run in results.runs})
    said = [f"mean over {seeds} seeds"] if seeds > 1 else []
    first = "; ".join([*said, "* best of its column"] if has_best else said)
    failed = [f"{NOTHING} {run}: {reason}" for run, reason in failures(results)]
    return Text("\n".join([*([first] if first else []), *_lacking(shown), *failed]))


def _lacking(shown: ReportTable) -> Iterator[str]:
    """One line per method that has values for fewer seeds: the values and the number of seeds."""
    for row in shown.rows:
        there = [(column, cell) for column, cell in zip(shown.columns, row.cells, strict=True) if cell.numbers]
        found: dict[str, list[str]] = {}
        for column, cell in there:
            if cell.lacking:
                setting = column.group.partition(", ")[2]
                found.setdefault(cell.lacking, []).append(f"{setting} {column.title}".strip())
        for count, titles in found.items():
            which = "" if len(titles) == len(there) else f"{', '.join(titles)}, "
            yield f"{FEWER} {row.label}: {which}{count} only"


def _texts_caption(written: list[Sheet]) -> Text:
    shown = written[0]
    several = len(shown.table.blocks) > 1
    said = ["mean over seeds"] if shown.several else []
    said += [f"* best of its column{' and block' if several else ''}"] if shown.table.has_best else []
    said += ["\N{RIGHTWARDS ARROW} the closer to human the better"] if shown.human else []
    lines = ["; ".join(said)] if said else []
    lacking = {row.label: row.lacking for row in shown.table.rows if row.lacking}
    lines += [f"{FEWER} {label}: {count} only" for label, count in lacking.items()]
    lines += [f"in the report: {', '.join(['intervals', 'ranking', *(sheet.title for sheet in written[1:])])}"]
    return Text("\n".join(lines))


def _heading(column: Column) -> str:
    # In "Accuracy, cache only", the part after the comma distinguishes two columns. One word per line saves width.
    group, _, setting = column.group.partition(", ")
    above = setting or ("" if column.goal or column.group == "Cost" else group.partition(" ")[0].lower())
    return _stacked(f"{above} {column.title}", column.short_unit)


def _texts_heading(column: Column) -> str:
    return _stacked(f"{column.short}{column.arrow}", column.short_unit)


def _stacked(title: str, unit: str) -> str:
    return "\n".join([*title.split(), f"({unit})" if unit and len(unit) <= LONGEST_UNIT else ""]).rstrip()
