"""The tables: one row a method, one column a metric or a cost."""

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
"""Characters of a table at most, beside the names of the methods: so many fit a telephone, two such tables a window."""

LONGEST_UNIT = 14
"""Characters of a unit that a heading has room for."""

NO_UNIT = "\N{NO-BREAK SPACE}"
"""Keeps the line of the unit free, so that titles stand beside each other."""

MAIN = 2
"""How many metrics of each group are shown in a terminal."""

MAIN_WITH_PROMPT = 1
"""The same of the metrics that are measured a second time, with a prompt."""


def main_table(results: Results) -> ReportTable:
    """Every metric that was measured on all cases, for every method."""
    return _metric_table(results, subset=False)


def subset_table(results: Results) -> ReportTable:
    """Every metric that was measured on a part of the cases only."""
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
    # Runs that disagree about the unit are shown with both, not called comparable.
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
    """What every method costs; columns that no run has are left out."""
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
"""What a run has under a key."""


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
    # titles alone do not tell columns of several groups, or of a part of the cases
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
    # several runs keep their own intervals
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
    """The table cut into such that are not too wide, groups kept whole where they are not too wide themselves.

    The first says what each method is made of.
    """

    def width(first: int, last: int) -> int:
        """Characters of some columns, with a space behind each; headings and long values may be broken at spaces."""
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
    """Method, metric, seed, value, interval and number of cases."""
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


# -- What a comparison found, in two sentences: who is ahead in its first measure and by how much, and where else.
#
# A third one says what to try where a setting is known to begin badly.

AHEAD = 3
"""How many methods are named; the first of the table, usually the plain softmax, is named besides."""

SCALED = ("temperature", "weight")
"""Settings of a cache that keep its memory from outweighing the softmax (docs/results/cache.md); a spec has them where
they are not the default."""


def finding(results: Results) -> str:
    """Empty where there are not two methods to compare, or no measure of which one end is better.

    The order is that of the means, and the ranges are the lowest and the highest seed: no test is made.
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
    of = f"mean of {seeds} seeds, lowest to highest" if seeds > 1 else "one seed, an anecdote; means: seeds=[0,1,2]"
    given: Any = results.settings.get("start") or {}
    advice = "" if given.get("model") else _advice([found[row.label].head for row in ranked])
    return f"{_title(table.columns[lead])}: {values} ({of}).{_elsewhere(table.rows, judged)}{advice}"


def leader(results: Results) -> str | None:
    """The label of the method that is ahead in the first measure; None where none can be."""
    table = main_table(results)
    ranked = _ranked(table, _judged(table))
    return ranked[0].label if len(ranked) > 1 else None


def _judged(table: ReportTable) -> list[int]:
    """Places of the measures that are shown first and of which one end is better."""
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
    return f" Best, or level with the best, in {most} of {len(judged)} measures: {best}."


def _advice(heads: list[str]) -> str:
    """What to try where every cache is at temperature 1, as on a small start, and lost; the best head first."""
    caches = [head for head in heads if re.match(r"cache\b", head)]
    if "softmax" not in heads or any(set(SCALED) & set(re.findall(r"\w+", head)) for head in caches):
        return ""
    if not caches or any(head in caches for head in heads[: heads.index("softmax")]):
        return ""
    return (
        " cache is at temperature 1 here, which often begins badly with a model that was trained without a cache: "
        "compare --head cache:temperature=2 --head cache:temperature=4 as well."
    )
