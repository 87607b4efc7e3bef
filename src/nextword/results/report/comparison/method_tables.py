"""The tables: one row a method, one column a metric or a cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from statistics import fmean

from nextword.results.records import Goal, Measure, MetricValue, Results, RunRecord
from nextword.results.records.known_measures import PROMPTED
from nextword.results.report import formats
from nextword.results.report.comparison.methods import ReportedMethod, methods

WIDEST = 36
"""Characters of a table at most, beside the names of the methods: so many fit a telephone, two such tables a window."""

LONGEST_UNIT = 14
"""Characters of a unit that a heading has room for."""

MAIN = 2
"""How many metrics of each group are shown in a terminal."""

MAIN_WITH_PROMPT = 1
"""The same of the metrics that are measured a second time, with a prompt."""


@dataclass(frozen=True)
class MethodColumn:
    """A quantity that every run may have."""

    group: str
    title: str
    unit: str
    better: Goal | None
    read: Callable[[RunRecord], MetricValue | None]
    show: Callable[[float], str]
    n: str = ""
    """How many cases the column's values come from, as text; empty for a cost."""
    meaning: str = ""
    """A term, a colon and a sentence for a reader who does not know it; empty where nothing is known of it."""
    main: bool = True
    """Whether it is among the few columns for which a terminal has room."""

    @property
    def short_unit(self) -> str:
        """The unit where it fits in a heading, or its sign."""
        if self.unit.startswith("%"):
            return "%"
        return self.unit if len(self.unit) <= LONGEST_UNIT else ""


@dataclass(frozen=True)
class SeedValue:
    """What one run measured."""

    seed: int
    text: str
    interval: str
    """95 % interval, or empty."""
    n: int


@dataclass(frozen=True)
class MethodCell:
    """One quantity of one method: its value, or the mean where there are several seeds."""

    mean: float | None
    text: str
    seeds: tuple[SeedValue, ...]
    best: bool = False
    lacking: str = ""
    """How many seeds it has, where these are not all; such a value is never called the best."""

    @property
    def interval(self) -> str:
        """The interval of the only run; several runs keep their own intervals."""
        return self.seeds[0].interval if len(self.seeds) == 1 else ""


@dataclass(frozen=True)
class MethodRow:
    """One method."""

    method: ReportedMethod
    cells: tuple[MethodCell, ...]


@dataclass(frozen=True)
class MethodTable:
    """Rows and columns, in reading order."""

    columns: tuple[MethodColumn, ...]
    rows: tuple[MethodRow, ...]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Headings over neighbouring columns, with the number of columns each spans."""
        return formats.spans(column.group for column in self.columns)

    @property
    def group_starts(self) -> list[bool]:
        """For every column, whether a group starts with it."""
        return [i == 0 or self.columns[i - 1].group != column.group for i, column in enumerate(self.columns)]

    @property
    def parts(self) -> list[MethodTable]:
        """The table cut into such that are not too wide, groups kept whole where they are not too wide themselves."""
        ends = [0]
        for _, span in self.groups:
            start = ends[-1]
            pieces = math.ceil(self._width(start, start + span) / WIDEST)
            ends += [start + round(span * (i + 1) / pieces) for i in range(pieces)]
        cuts = [0]
        for before, end in pairwise(ends):
            if before > cuts[-1] and self._width(cuts[-1], end) > WIDEST:
                cuts.append(before)
        return [self._columns(first, last) for first, last in pairwise([*cuts, ends[-1]]) if first < last]

    def _width(self, first: int, last: int) -> int:
        """Characters of some columns, with a space behind each; headings and long values may be broken at spaces."""
        texts = [[self.columns[i].title, *(row.cells[i].text for row in self.rows)] for i in range(first, last)]
        return sum(1 + max(len(word) for text in column for word in text.split()) for column in texts)

    def _columns(self, first: int, last: int) -> MethodTable:
        return MethodTable(
            self.columns[first:last], tuple(MethodRow(row.method, row.cells[first:last]) for row in self.rows)
        )

    @property
    def names_groups(self) -> bool:
        """Whether the columns cannot be told by their titles alone: several groups, or a part of the cases."""
        return len(self.groups) > 1 or any(", " in name for name, _ in self.groups)

    @property
    def has_lacking(self) -> bool:
        """Whether any value lacks some of its seeds."""
        return any(cell.lacking for row in self.rows for cell in row.cells)

    @property
    def has_best(self) -> bool:
        """Whether any value is marked as the best of its column."""
        return any(cell.best for row in self.rows for cell in row.cells)


def main_table(results: Results) -> MethodTable:
    """Every metric that was measured on all cases, for every method."""
    return _table(results, _metric_columns(methods(results), subset=False))


def subset_table(results: Results) -> MethodTable:
    """Every metric that was measured on a part of the cases only."""
    return _table(results, _metric_columns(methods(results), subset=True))


def cost_table(results: Results) -> MethodTable:
    """What every method costs; columns that no run has are left out."""
    measured = [column for column in _COSTS if any(column.read(run) is not None for run in results.runs)]
    return _table(results, measured)


def _table(results: Results, columns: Sequence[MethodColumn]) -> MethodTable:
    found = methods(results)
    seeds = len(results.seeds)
    by_column = [_mark_best([_cell(method, column, seeds) for method in found], column.better) for column in columns]
    rows = [MethodRow(method, tuple(cells[i] for cells in by_column)) for i, method in enumerate(found)]
    return MethodTable(tuple(columns), tuple(rows))


def _metric_columns(found: Sequence[ReportedMethod], subset: bool) -> list[MethodColumn]:
    runs = [run for method in found for run in method.runs]
    measures = found[0].measures if found else {}
    shown = [(key, measure) for key, measure in measures.items() if bool(measure.subset) == subset]
    return [
        _metric_column(key, measure, runs, main=i < (MAIN_WITH_PROMPT if measure.setting == PROMPTED else MAIN))
        for _, members in groupby(shown, key=lambda one: one[1].group)
        for i, (key, measure) in enumerate(members)
    ]


def _metric_column(key: str, measure: Measure, runs: Sequence[RunRecord], main: bool) -> MethodColumn:
    values = [run.evaluation.metrics[key] for run in runs if key in run.evaluation.metrics]
    units = list(dict.fromkeys(value.unit for value in values))
    low, high = min(value.n for value in values), max(value.n for value in values)
    return MethodColumn(
        group=measure.group,
        title=measure.title,
        # Runs that disagree about the unit are shown with both, not called comparable.
        unit=formats.unit_name(units[0]) if len(units) == 1 else " or ".join(units),
        better=measure.goal if len(units) == 1 else None,
        read=lambda run: run.evaluation.metrics.get(key),
        show=partial(formats.value, unit=units[0] if len(units) == 1 else "", decimals=measure.decimals),
        n=f"n = {formats.plain(low)}" if low == high else f"n = {formats.plain(low)} to {formats.plain(high)}",
        meaning=measure.meaning,
        main=main,
    )


def _cost(title: str, unit: str, name: str, show: Callable[[float], str], main: bool) -> MethodColumn:
    def read(run: RunRecord) -> MetricValue | None:
        number = getattr(run.cost, name)
        return None if number is None else MetricValue(value=float(number), unit=unit, n=1)

    return MethodColumn("Cost", title, unit, None, read, show, main=main)


_COSTS = (
    _cost("params", "", "parameters", formats.count, main=False),
    _cost("trained", "", "trained_parameters", formats.count, main=True),
    _cost("per step", "ms", "ms_per_step", formats.digits, main=True),
    _cost("peak memory", "MiB", "peak_memory_mib", formats.digits, main=True),
    _cost("training", "", "train_seconds", formats.seconds, main=False),
)


def _cell(method: ReportedMethod, column: MethodColumn, expected: int) -> MethodCell:
    found = [(run.seed, value) for run in method.runs if (value := column.read(run)) is not None]
    if not found:
        return MethodCell(None, formats.NOTHING, ())
    mean = fmean(value.value for _, value in found)
    values = []
    for seed, value in found:
        interval = "" if value.interval is None else formats.interval(*map(column.show, value.interval))
        values.append(SeedValue(seed, column.show(value.value), interval, value.n))
    lacking = f"{len(found)} of {expected} seeds" if len(found) < expected else ""
    return MethodCell(mean, column.show(mean), tuple(values), lacking=lacking)


def _mark_best(cells: list[MethodCell], better: Goal | None) -> list[MethodCell]:
    means = [cell.mean for cell in cells if cell.mean is not None and not cell.lacking]
    if better is None or len(means) < 2 or min(means) == max(means):
        return cells  # one method, or all alike: nothing to point out
    top = max(means) if better == "higher" else min(means)
    return [replace(cell, best=cell.mean == top and not cell.lacking) for cell in cells]


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
    column, rows = table.columns[judged[0]], [row for row in table.rows if row in ranked]
    named = ranked[:AHEAD] + [row for row in rows[:1] if row not in ranked[:AHEAD]]
    values = ", ".join(f"{row.method.label} {_value(row, column)}" for row in named)
    seeds = max(len(row.method.runs) for row in rows)
    of = f"mean of {seeds} seeds, lowest to highest" if seeds > 1 else "one seed, an anecdote; means: seeds=[0,1,2]"
    return f"{_title(column)}: {values} ({of}).{_elsewhere(table.rows, judged)}{_advice(ranked)}"


def leader(results: Results) -> str | None:
    """The label of the method that is ahead in the first measure; None where none can be."""
    table = main_table(results)
    ranked = _ranked(table, _judged(table))
    return ranked[0].method.label if len(ranked) > 1 else None


def _judged(table: MethodTable) -> list[int]:
    """Places of the measures that are shown first and of which one end is better."""
    return [i for i, column in enumerate(table.columns) if column.main and column.better]


def _ranked(table: MethodTable, judged: list[int]) -> list[MethodRow]:
    if not judged:
        return []
    lead = judged[0]
    rows = [row for row in table.rows if row.cells[lead].mean is not None]
    return sorted(rows, key=lambda row: row.cells[lead].mean or 0.0, reverse=table.columns[lead].better == "higher")


def _title(column: MethodColumn) -> str:
    setting = column.group.partition(", ")[2]
    unit = f", {column.short_unit}" if column.short_unit else ""
    return f"{column.title}{f', {setting}' if setting else ''}{unit}"


def _value(row: MethodRow, column: MethodColumn) -> str:
    numbers = [value.value for run in row.method.runs if (value := column.read(run)) is not None]
    low, mean, high = (column.show(number) for number in (min(numbers), fmean(numbers), max(numbers)))
    return mean if low == high else f"{mean} ({low} to {high})"


def _elsewhere(rows: tuple[MethodRow, ...], judged: list[int]) -> str:
    wins = {row.method.label: sum(row.cells[i].best for i in judged) for row in rows}
    most = max(wins.values())
    if len(judged) < 2 or not most:
        return ""
    best = formats.listing([label for label, count in wins.items() if count == most])
    return f" Best, or level with the best, in {most} of {len(judged)} measures: {best}."


def _advice(ranked: list[MethodRow]) -> str:
    """What to try where every cache is at temperature 1, the default, and lost to the softmax."""
    caches = [row for row in ranked if re.match(r"cache\b", row.method.head)]
    plain = next((place for place, row in enumerate(ranked) if row.method.head == "softmax"), None)
    if plain is None or any(set(SCALED) & set(re.findall(r"\w+", row.method.head)) for row in caches):
        return ""
    if not caches or any(row in caches for row in ranked[:plain]):
        return ""
    return (
        " cache is at temperature 1 here, which often begins badly with a model that was trained without a cache: "
        "compare --head cache:temperature=2 --head cache:temperature=4 as well."
    )
