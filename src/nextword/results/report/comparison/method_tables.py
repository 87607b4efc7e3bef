"""Tables with one row per method, and one column per metric or cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from statistics import fmean
from typing import Any

from nextword.results.records import Goal, Measure, MetricValue, Results, RunRecord
from nextword.results.records.known_measures import PROMPTED
from nextword.results.report import formats
from nextword.results.report.comparison.methods import ReportedMethod, methods
from nextword.results.report.table import Block, Cell, Column, ReportTable, Row, best_of

WIDEST = 36
"""Maximum width of a table in characters, without the methods' names, so that the table fits on a phone."""

LONGEST_UNIT = 14
"""Maximum characters of a unit in a heading."""

NO_UNIT = "\N{NO-BREAK SPACE}"
"""Placeholder for a missing unit, so that the headings of all columns have equally many lines."""

MAIN = 2
"""Number of metrics per group in the terminal."""

MAIN_WITH_PROMPT = 1
"""Number of metrics per group in the terminal for settings with a prompt."""


def main_table(results: Results) -> ReportTable:
    """The table of the metrics that are computed over all cases."""
    return _metric_table(results, subset=False)


def subset_table(results: Results) -> ReportTable:
    """The table of the metrics that are computed over a subset of the cases."""
    return _metric_table(results, subset=True)


def _metric_table(results: Results, subset: bool) -> ReportTable:
    found = methods(results)
    measures = found[0].measures if found else {}
    shown = [(key, measure) for key, measure in measures.items() if bool(measure.subset) == subset]
    columns = [
        _metric_column(key, measure, results.runs, i < (MAIN_WITH_PROMPT if measure.setting == PROMPTED else MAIN))
        for _, members in groupby(shown, key=lambda one: one[1].group)
        for i, (key, measure) in enumerate(members)
    ]
    return _table(results, columns, _metric)


def _metric(key: str, run: RunRecord) -> MetricValue | None:
    return run.evaluation.metrics.get(key)


def _metric_column(key: str, measure: Measure, runs: Sequence[RunRecord], main: bool) -> Column:
    values = [run.evaluation.metrics[key] for run in runs if key in run.evaluation.metrics]
    units = list(dict.fromkeys(value.unit for value in values))
    low, high = min(value.n for value in values), max(value.n for value in values)
    n = f"n = {formats.plain(low)}" if low == high else f"n = {formats.plain(low)} to {formats.plain(high)}"
    one = len(units) == 1
    # If runs have different units, the heading shows all of them, and no value is marked as best.
    unit = formats.unit_name(units[0]) if one else " or ".join(units)
    short = "%" if unit.startswith("%") else unit if len(unit) <= LONGEST_UNIT else ""
    return Column(
        group=measure.group,
        title=measure.title,
        key=key,
        measure=measure if one else measure.model_copy(update={"goal": None}),
        unit=unit,
        short_unit=short,
        n=n,
        hover=unit,
        below=(short or NO_UNIT, n),
        main=main,
        show=partial(formats.value, unit=units[0] if one else "", decimals=measure.decimals),
    )


def cost_table(results: Results) -> ReportTable:
    """The table of costs. Columns without values are left out."""
    measured = [column for column in _COSTS if any(_cost(column.key, run) is not None for run in results.runs)]
    return _table(results, measured, _cost)


def _cost_column(title: str, unit: str, key: str, show: Callable[[float], str], main: bool = True) -> Column:
    below = (unit or NO_UNIT,)
    return Column(title, "Cost", key, unit=unit, short_unit=unit, hover=unit, below=below, main=main, show=show)


def _cost(key: str, run: RunRecord) -> MetricValue | None:
    number = getattr(run.cost, key)
    return None if number is None else MetricValue(value=float(number), unit="", n=1)


_COSTS = (
    _cost_column("params", "", "parameters", formats.count, main=False),
    _cost_column("trained", "", "trained_parameters", formats.count),
    _cost_column("per step", "ms", "ms_per_step", formats.digits),
    _cost_column("peak memory", "MiB", "peak_memory_mib", formats.digits),
    _cost_column("training", "", "train_seconds", formats.seconds, main=False),
)


Read = Callable[[str, RunRecord], MetricValue | None]
"""Function that returns a run's value for a key."""


def _table(results: Results, columns: Sequence[Column], read: Read) -> ReportTable:
    found, seeds = methods(results), len(results.seeds)
    by_column = [
        _best_marked([_cell(method, column, read, seeds) for method in found], column.goal) for column in columns
    ]
    rows = [
        Row(
            label=method.label,
            cells=tuple(cells[place] for cells in by_column),
            style=method.style,
            noted=bool(method.notes),
            made_of=" \N{MIDDLE DOT} ".join(method.parts),
            below=(_of_seeds(len(method.runs), seeds),),
        )
        for place, method in enumerate(found)
    ]
    groups = list(dict.fromkeys(column.group for column in columns))
    # if there are several groups or subsets of cases, titles alone do not distinguish the columns
    shows_groups = len(groups) > 1 or any(", " in name for name in groups)
    return ReportTable(tuple(columns), (Block(tuple(rows)),), shows_groups)


def _of_seeds(count: int, expected: int) -> str:
    return f"{count} of {expected} seeds" if count < expected else ""


def _cell(method: ReportedMethod, column: Column, read: Read, expected: int) -> Cell:
    found = [value for run in method.runs if (value := read(column.key, run)) is not None]
    if not found:
        return Cell()
    numbers = tuple(value.value for value in found)
    lacking = _of_seeds(len(found), expected)
    # the mean of several runs has no interval
    interval = formats.interval(*map(column.show, found[0].interval)) if len(found) == 1 and found[0].interval else ""
    seeds = tuple(map(column.show, numbers)) if len(found) > 1 and column.n else ()
    return Cell(
        text=column.show(fmean(numbers)),
        value=fmean(numbers),
        numbers=numbers,
        seeds=seeds,
        interval=interval,
        lacking=lacking,
        below=("" if lacking == _of_seeds(len(method.runs), expected) else lacking, interval, *seeds),
    )


def _best_marked(cells: list[Cell], goal: Goal | None) -> list[Cell]:
    whole = {str(place): cell.value for place, cell in enumerate(cells) if cell.value is not None and not cell.lacking}
    best = best_of(goal, whole)
    return [replace(cell, best=str(place) in best) for place, cell in enumerate(cells)]


def parts(table: ReportTable) -> list[ReportTable]:
    """Split the table into tables of ``WIDEST`` characters or less. Columns of one heading stay together if they fit.

    Only the first table has the specs of the methods.
    """

    def width(first: int, last: int) -> int:
        """Width of columns in characters. Headings and long values may be broken at spaces."""
        texts = [[table.columns[i].title, *(row.cells[i].text for row in table.rows)] for i in range(first, last)]
        return sum(1 + max(len(word) for text in column for word in text.split()) for column in texts)

    joints = [0]
    for _, span in table.headings:
        start = joints[-1]
        pieces = math.ceil(width(start, start + span) / WIDEST)
        joints += [start + round(span * (i + 1) / pieces) for i in range(pieces)]
    first, *others = table.cut(joints[1:], lambda first, last: width(first, last) <= WIDEST) or [table]
    bare = [Block(tuple(replace(row, made_of="", below=()) for row in part.rows)) for part in others]
    return [first, *(replace(part, blocks=(block,)) for part, block in zip(others, bare, strict=True))]


def every_seed(results: Results) -> list[tuple[str, ...]]:
    """Return one row per run and metric of ``main_table``: method, metric, seed, value, interval, number of cases."""
    columns = main_table(results).columns
    return [
        (
            method.label,
            f"{column.group}: {column.title}",
            str(run.seed),
            column.show(value.value) + (" %" if column.short_unit == "%" else ""),
            formats.interval(*map(column.show, value.interval)) if value.interval else formats.NOTHING,
            str(value.n),
        )
        for method in methods(results)
        for column in columns
        for run in method.runs
        if (value := run.evaluation.metrics.get(column.key)) is not None
    ]


# -- The result of a comparison in two sentences: which method is best in the first metric, and in which others.
#
# A third sentence gives advice if a setting is known to start badly.

AHEAD = 3
"""Number of methods that the sentence of ``finding`` names, in addition to the best method."""

SCALED = ("temperature", "weight")
"""Settings of the head cache that set how much weight the cache has against the softmax (docs/results/cache.md)."""


def finding(results: Results) -> str:
    """State the main result in sentences; empty with fewer than two methods, or without a metric to rank them by.

    The metric is the first of which higher or lower values are better. Methods are ordered by their mean over seeds in
    this metric, and the range over seeds is given. Differences are not tested for significance.
    """
    table = main_table(results)
    judged = _judged(table)
    ranked = _ranked(table, judged)
    if len(ranked) < 2:
        return ""
    lead, rows = judged[0], [row for row in table.rows if row in ranked]
    named = ranked[:AHEAD] + [row for row in rows[:1] if row not in ranked[:AHEAD]]
    values = ", ".join(f"{row.label} {_value(row.cells[lead], table.columns[lead])}" for row in named)
    found = {method.label: method for method in methods(results)}
    seeds = max(len(found[row.label].runs) for row in rows)
    of = (
        f"mean of {seeds} seeds, lowest to highest"
        if seeds > 1
        else "one seed only, which is not enough to rank methods; mean of three: seeds=[0,1,2]"
    )
    given: Any = results.settings.get("start") or {}
    advice = "" if given.get("model") else _advice([found[row.label].head for row in ranked])
    return f"{_title(table.columns[lead])}: {values} ({of}).{_elsewhere(table.rows, judged)}{advice}"


def leader(results: Results) -> str | None:
    """Label of the method that ``finding`` names first, which is the best; None if there is no finding."""
    table = main_table(results)
    ranked = _ranked(table, _judged(table))
    return ranked[0].label if len(ranked) > 1 else None


def _judged(table: ReportTable) -> list[int]:
    """Indices of the first columns, for metrics that have a better direction."""
    return [i for i, column in enumerate(table.columns) if column.main and column.goal not in (None, "human")]


def _ranked(table: ReportTable, judged: list[int]) -> list[Row]:
    if not judged:
        return []
    lead = judged[0]
    rows = [row for row in table.rows if row.cells[lead].value is not None]
    return sorted(rows, key=lambda row: row.cells[lead].value or 0.0, reverse=table.columns[lead].goal == "higher")


def _title(column: Column) -> str:
    setting = column.group.partition(", ")[2]
    unit = f", {column.short_unit}" if column.short_unit else ""
    return f"{column.title}{f', {setting}' if setting else ''}{unit}"


def _value(cell: Cell, column: Column) -> str:
    low, high = column.show(min(cell.numbers)), column.show(max(cell.numbers))
    return cell.text if low == high else f"{cell.text} ({low} to {high})"


def _elsewhere(rows: Sequence[Row], judged: list[int]) -> str:
    wins = {row.label: sum(row.cells[i].best for i in judged) for row in rows}
    most = max(wins.values())
    if len(judged) < 2 or not most:
        return ""
    best = formats.listing([label for label, count in wins.items() if count == most])
    return f" Best or tied for best in {most} of {len(judged)} metrics: {best}."


def _advice(heads: list[str]) -> str:
    """Advice if every cache has temperature 1 and no cache is the best."""
    caches = [head for head in heads if re.match(r"cache\b", head)]
    if "softmax" not in heads or any(set(SCALED) & set(re.findall(r"\w+", head)) for head in caches):
        return ""
    if not caches or any(head in caches for head in heads[: heads.index("softmax")]):
        return ""
    return (
        " cache has temperature 1 here, which often starts badly with a model that was trained without a cache: also "
        "compare --head cache:temperature=2 --head cache:temperature=4."
    )
