"""What becomes of a claim: the difference of two cells in each seed, and on which side of zero its interval lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nextword.metrics.parts.intervals import over_seeds
from nextword.records.reproduced_table import JudgedClaim, JudgedComparison, Outcome
from nextword.reproduction.experiment import Scale
from nextword.reproduction.paper import Claim, Column, Comparison, Row, Table
from nextword.reproduction.table_numbers import NO_SEED, CellValue

Cells = Mapping[tuple[str, str], CellValue | str]
"""By title of the row and name of the column: our number, or why there is none."""


def judged_claims(table: Table, cells: Cells, people: Cells, scale: Scale) -> list[JudgedClaim]:
    """Every claim of a table against our numbers.

    Args:
        table: The table.
        cells: Our numbers.
        people: People's value of a cell where theirs is the goal, under the same keys.
        scale: At which ours were measured.
    """
    return [_tested(claim, table, cells, people, scale) for claim in table.claims]


def _tested(claim: Claim, table: Table, cells: Cells, people: Cells, scale: Scale) -> JudgedClaim:
    comparisons = [_compared(one, table, cells, people) for one in claim.comparisons]
    outcome, reason = _judged(claim, claim.not_testable.get(scale), comparisons)
    return JudgedClaim(
        text=claim.text,
        place=claim.place,
        headline=claim.headline,
        outcome=outcome,
        reason=reason,
        comparisons=comparisons,
        note=claim.note,
    )


def _judged(claim: Claim, obstacle: str | None, comparisons: Sequence[JudgedComparison]) -> tuple[Outcome, str]:
    """What becomes of a claim, and the numbers that say so."""
    tested = [one for one in comparisons if one.outcome != "not testable"]
    if not tested:
        untested = "; ".join(map(_line, comparisons)) or "it is not about numbers of this table"
        return "not testable", obstacle or untested
    rest = len(comparisons) - len(tested)
    needed = len(tested) if claim.at_least is None else claim.at_least
    outcome = _outcome_of([one.outcome for one in tested], needed, rest if claim.at_least is not None else 0)
    lines = [*map(_line, tested), *([f"{rest} of {len(comparisons)} comparisons have no numbers here"] if rest else [])]
    return outcome, "; ".join(lines)


def _outcome_of(outcomes: Sequence[Outcome], needed: int, unknown: int) -> Outcome:
    """What so many comparisons make of a claim of which ``needed`` must hold; ``unknown`` ones have no numbers."""
    held, open_ones = outcomes.count("held"), outcomes.count("undecided") + unknown
    return "held" if held >= needed else "undecided" if held + open_ones >= needed else "not held"


def _compared(one: Comparison, table: Table, cells: Cells, people: Cells) -> JudgedComparison:
    first, column = table.row(one.row), table.column(one.column)
    better = one.better or column.better
    other = column if one.than_column is None else table.column(one.than_column)
    untested = JudgedComparison(
        first=first.title,
        second=str(one.than),
        column=column.name if other is column else f"{column.name} against {other.name}",
        printed=_printed(one, table, first, column, other),
        outcome="not testable",
    )
    places = [(first.title, column.name), *([(one.than, other.name)] if isinstance(one.than, str) else [])]
    goal = people.get(places[0])
    ours = [cells[place] for place in places]
    without_goal = better == "human" and not isinstance(goal, CellValue)
    if without_goal or any(isinstance(cell, str) or cell.text is not None for cell in ours):
        return untested
    numbers = [cell.by_seed for cell in ours if isinstance(cell, CellValue)]
    constant = None if isinstance(one.than, str) else one.than
    differences = _differences(numbers, constant, _nearness(better, goal))
    if not differences:
        return untested  # a seed of each failed, and none is left that both have
    mean, interval = over_seeds(differences)
    low, high = interval or (None, None)
    exact = all(set(by_seed) == {NO_SEED} for by_seed in numbers)
    return untested.model_copy(
        update={
            "outcome": _outcome_exact(mean, better) if exact else _outcome(interval, better),
            "difference": mean,
            "low": low,
            "high": high,
            "seeds": 0 if exact else len(differences),
        }
    )


def _nearness(better: str | None, goal: CellValue | str | None) -> Callable[[float], float]:
    """What grows where a value is better, but for the sign of "lower"."""
    if better == "human" and isinstance(goal, CellValue):
        human = next(iter(goal.by_seed.values()))
        return lambda value: -abs(value - human)
    return lambda value: value


def _differences(
    numbers: Sequence[Mapping[str, float]], constant: float | None, nearness: Callable[[float], float]
) -> list[float]:
    """First less second, seed by seed; what has no seed stands against every one."""
    first = numbers[0]
    if constant is not None:
        return [nearness(value) - constant for value in first.values()]
    second = numbers[1]
    seeds = [seed for seed in first if seed in second]
    if not seeds and NO_SEED in second:
        return [nearness(value) - nearness(second[NO_SEED]) for value in first.values()]
    if not seeds and NO_SEED in first:
        return [nearness(first[NO_SEED]) - nearness(value) for value in second.values()]
    return [nearness(first[seed]) - nearness(second[seed]) for seed in seeds]


def _outcome(interval: tuple[float, float] | None, better: str | None) -> Outcome:
    """What an interval over seeds says; where all seeds are equal, as two methods at 100 %, nothing is decided."""
    if interval is None:
        return "undecided"
    low, high = interval if better != "lower" else (-interval[1], -interval[0])
    return "held" if low > 0 else "not held" if high < 0 else "undecided"


def _outcome_exact(difference: float, better: str | None) -> Outcome:
    """What a difference says that no training gave, such as one of sizes."""
    return "held" if (-difference if better == "lower" else difference) > 0 else "not held"


def _printed(one: Comparison, table: Table, first: Row, column: Column, other: Column) -> float | None:
    """The same difference in the paper's numbers."""
    better = table.printed(first, column)
    worse = table.printed(table.row(one.than), other) if isinstance(one.than, str) else one.than
    if isinstance(better, str) or isinstance(worse, str) or better is None or worse is None:
        return None
    human = next((row for row in table.rows if row.method == "human"), None)
    goal = table.printed(human, column) if human is not None else None
    if (one.better or column.better) == "human":
        return abs(worse - goal) - abs(better - goal) if isinstance(goal, float) else None
    return better - worse


def _line(one: JudgedComparison) -> str:
    pair = f"{one.first} − {one.second}, {one.column}"
    printed = "" if one.printed is None else f"; paper {_signed(one.printed)}"
    if one.difference is None:
        return f"{pair}: no number here{printed}"
    if not one.seeds:  # no training gave it
        return f"{pair}: {_signed(one.difference)}{printed}"
    if one.low is None or one.high is None:
        return f"{pair}: {_signed(one.difference)} (one seed so far{printed})"
    if one.difference == one.low == one.high == 0:
        return f"{pair}: equal with all {one.seeds} seeds{printed}"
    return f"{pair}: {_signed(one.difference)} ({_signed(one.low)} to {_signed(one.high)}, {one.seeds} seeds{printed})"


def _signed(value: float) -> str:
    return f"{value:+.3g}"
