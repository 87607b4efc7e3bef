"""What a comparison found, in two sentences: who is ahead in its first measure and by how much, and where else.

A third one says what to try where a setting is known to begin badly.
"""

from __future__ import annotations

import re
from statistics import fmean

from nextword.results.records import Results
from nextword.results.report.comparison.method_tables import Column, Row, Table, main_table
from nextword.results.report.parts import formats

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


def _judged(table: Table) -> list[int]:
    """Places of the measures that are shown first and of which one end is better."""
    return [i for i, column in enumerate(table.columns) if column.main and column.better]


def _ranked(table: Table, judged: list[int]) -> list[Row]:
    """The methods by the mean of the first measure, best first."""
    if not judged:
        return []
    lead = judged[0]
    rows = [row for row in table.rows if row.cells[lead].mean is not None]
    return sorted(rows, key=lambda row: row.cells[lead].mean or 0.0, reverse=table.columns[lead].better == "higher")


def _title(column: Column) -> str:
    setting = column.group.partition(", ")[2]
    unit = f", {column.short_unit}" if column.short_unit else ""
    return f"{column.title}{f', {setting}' if setting else ''}{unit}"


def _value(row: Row, column: Column) -> str:
    numbers = [value.value for run in row.method.runs if (value := column.read(run)) is not None]
    low, mean, high = (column.show(number) for number in (min(numbers), fmean(numbers), max(numbers)))
    return mean if low == high else f"{mean} ({low} to {high})"


def _elsewhere(rows: tuple[Row, ...], judged: list[int]) -> str:
    """Who is best in how many of the measures shown."""
    wins = {row.method.label: sum(row.cells[i].best for i in judged) for row in rows}
    most = max(wins.values())
    if len(judged) < 2 or not most:
        return ""
    best = formats.listing([label for label, count in wins.items() if count == most])
    return f" Best, or level with the best, in {most} of {len(judged)} measures: {best}."


def _advice(ranked: list[Row]) -> str:
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
