"""Fill a table of a paper from the results of its experiments, and test its claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nextword.evaluation.metrics.statistics import over_seeds
from nextword.experiments.reproduction.experiment import find_experiment
from nextword.experiments.reproduction.paper import (
    Address,
    Claim,
    Comparison,
    PaperColumn,
    PaperRow,
    PaperTable,
    find_table,
    load_paper,
)
from nextword.experiments.reproduction.table_numbers import (
    HUMAN,
    CellValue,
    ExperimentResults,
    MissingValueError,
    added,
    cell_value,
)
from nextword.results.records import Environment
from nextword.results.records.reproduced_table import (
    NO_SEED,
    JudgedClaim,
    JudgedComparison,
    Outcome,
    ReproducedCell,
    ReproducedColumn,
    ReproducedRow,
    ReproducedTable,
    Scale,
)


def table_record(
    name: str, table: PaperTable, experiments: Mapping[str, ExperimentResults], scale: Scale, command: str
) -> ReproducedTable:
    """Make the record of the table ``name``, with our numbers beside the printed ones, and with its claims tested.

    ``experiments`` maps names to results. It may lack experiments that were not run yet or are not done at this scale.
    """
    table = table.at(scale)
    cells = {_key(*place): _found(table, *place, experiments, scale) for place in table.places}
    ran = [one for name in table.experiments if name in experiments and (one := experiments[name].record) is not None]
    shown = next((one.report for one in ran if one.report), None)
    return ReproducedTable(
        **_defined(name, table, cells, scale),
        shown_in=f"{shown}#{table.section}" if shown and table.section else None,
        experiments=ran,
        command=command,
        environment=Environment.collect(),
    )


def renewed(record: ReproducedTable) -> ReproducedTable:
    """Update a record to its table's current definition: current rows, notes and claims, with the record's numbers.

    A row that the record lacks counts as not run yet.
    """
    table = find_table(record.name).at(record.scale)
    titles = [f"{one.group}: {one.title}" if one.group else one.title for one in record.columns]
    kept = {
        (row.title, title): _kept(cell) for row in record.rows for title, cell in zip(titles, row.cells, strict=True)
    }
    cells = {_key(*one): kept.get(_key(*one)) or _found(table, *one, {}, record.scale) for one in table.places}
    return record.model_copy(update=_defined(record.name, table, cells, record.scale))


def _defined(name: str, table: PaperTable, cells: Cells, scale: Scale) -> dict[str, Any]:
    """The record of a table from its definition and our numbers."""
    paper = load_paper(name.partition("/")[0])
    done = [one for experiment in table.experiments if (one := find_experiment(experiment).at(scale)) is not None]
    return {
        "name": name,
        "paper": f"{paper.title}. {paper.authors}. {paper.venue}.",
        "title": table.title,
        "place": table.place,
        "scale": scale,
        "columns": [
            ReproducedColumn(title=one.title, group=one.group, unit=one.unit, better=one.better)
            for one in table.columns
        ],
        "rows": [
            ReproducedRow(
                title=row.title,
                cells=[_cell(table, row, column, cells[_key(row, column)]) for column in table.columns],
                note=row.note,
            )
            for row in table.rows
        ],
        "claims": judged_claims(table, cells, _goals(table, cells), scale),
        "note": table.note,
        "differs": list(dict.fromkeys(line for one in done for line in one.differs)),
    }


def _goals(table: PaperTable, cells: Cells) -> Cells:
    """For each cell, the human value at the same address."""
    people = [(row, column) for row, column in table.places if table.address(row, column).method == HUMAN]
    found = {table.address(*place): cells[_key(*place)] for place in people}
    goals = {_key(*place): found.get(Address(method=HUMAN).within(table.address(*place))) for place in table.places}
    return {place: cell for place, cell in goals.items() if cell is not None}


def _kept(cell: ReproducedCell) -> CellValue | str:
    """A cell's value, restored from a record."""
    if cell.value is None:
        return cell.missing or "it was not measured"
    if isinstance(cell.value, str):
        return CellValue(text=cell.value)
    return CellValue(cell.by_seed or {NO_SEED: cell.value}, cell.low, cell.high)


def _key(row: PaperRow, column: PaperColumn) -> tuple[str, str]:
    return row.title, column.name


def _found(
    table: PaperTable, row: PaperRow, column: PaperColumn, experiments: Mapping[str, ExperimentResults], scale: Scale
) -> CellValue | str:
    if column.name in row.elsewhere:
        return CellValue({NO_SEED: row.elsewhere[column.name]})
    address = table.address(row, column)
    names = [name for name in (address.experiment, address.plus) if name is not None]
    if not names or address.measure is None:
        return "none of our experiments measures this number"
    for name in names:
        if name not in experiments:
            return f"not at scale {scale}" if find_experiment(name).at(scale) is None else "not run yet"
    try:
        values = [cell_value(address, experiments[name]) for name in names]
        return values[0] if address.plus is None else added(*values)
    except MissingValueError as problem:
        return str(problem)


def _cell(table: PaperTable, row: PaperRow, column: PaperColumn, ours: CellValue | str) -> ReproducedCell:
    own: dict[str, Any] = {"missing": ours}
    if isinstance(ours, CellValue):
        own = {"value": ours.value, "low": ours.low, "high": ours.high, "by_seed": dict(ours.by_seed)}
    return ReproducedCell(printed=table.printed(row, column), spread=table.spread(row, column), **own)


# -- What becomes of a claim: the difference of two cells in each seed, and on which side of zero its interval lies.
#
# One rule for all: ``_outcome`` for a comparison, ``_judged`` for the claim that is made of them.

Cells = Mapping[tuple[str, str], CellValue | str]
"""Our number, or the reason why there is none, by row title and column name."""


def judged_claims(table: PaperTable, cells: Cells, people: Cells, scale: Scale) -> list[JudgedClaim]:
    """Test every claim of a table with our numbers.

    ``cells`` maps pairs of row title and column name to our number, and ``people`` maps such pairs to the human value
    of the same measure.
    """
    judged = []
    for claim in table.claims:
        comparisons = [_compared(one, table, cells, people) for one in claim.comparisons]
        outcome, reason = _judged(claim, claim.not_testable.get(scale), comparisons)
        said = claim.model_dump(include={"text", "place", "headline", "note"})
        judged.append(
            JudgedClaim(**said, outcome=outcome, reason=reason, comparisons=comparisons, needed=claim.at_least)
        )
    return judged


def _judged(claim: Claim, obstacle: str | None, comparisons: Sequence[JudgedComparison]) -> tuple[Outcome, str]:
    tested = [one for one in comparisons if one.outcome != "not testable"]
    if not tested:
        untested = "; ".join(map(_line, comparisons)) or "the claim is not about numbers of this table"
        return "not testable", obstacle or untested
    rest = len(comparisons) - len(tested)
    outcomes = [one.outcome for one in tested]
    needed, open_ones = len(tested), outcomes.count("inconclusive")
    if claim.at_least is not None:  # those without numbers may be among the ones that hold
        needed, open_ones = claim.at_least, open_ones + rest
    supported = outcomes.count("supported")
    outcome: Outcome = "inconclusive" if supported + open_ones >= needed else "not supported"
    outcome = "supported" if supported >= needed else outcome
    lines = [*map(_line, tested), *([f"{rest} of {len(comparisons)} comparisons have no numbers here"] if rest else [])]
    return outcome, "; ".join(lines)


@dataclass(frozen=True)
class _Term:
    """A cell of a comparison and its weight in the difference."""

    row: str
    column: str
    weight: float


def _compared(one: Comparison, table: PaperTable, cells: Cells, people: Cells) -> JudgedComparison:
    first, column = table.row(one.row), table.column(one.column)
    better = one.better or column.better
    terms = _terms(one)
    printed = _seed_differences(one, terms, *_printed(table, terms, better))
    untested = JudgedComparison(
        first=first.title if one.over is None else f"{first.title} over {one.over}",
        second=_other(one),
        column=column.name if one.than_column is None else f"{column.name} against {one.than_column}",
        printed=next(iter(printed.values()), None),
        outcome="not testable",
    )
    goals = people if better == "human" else None
    differences = _seed_differences(one, terms, cells, goals)
    if not differences:
        return untested
    exact = set(differences) == {NO_SEED}
    mean, interval = over_seeds(list(differences.values()))
    low, high = interval or (None, None)
    return untested.model_copy(
        update={
            "outcome": _outcome((mean, mean) if exact else interval, better),
            "difference": mean,
            "low": low,
            "high": high,
            "seeds": 0 if exact else len(differences),
        }
    )


def _terms(one: Comparison) -> list[_Term]:
    """The weighted cells of a comparison: first minus other; for gains, each minus its reference row."""
    other = one.than_column or one.column
    gains = [] if one.over is None else [_Term(one.over, one.column, -1.0)]
    if not isinstance(one.than, str):
        return [_Term(one.row, one.column, 1.0), *gains]
    base = one.than_over or one.over
    gains += [] if base is None else [_Term(base, other, one.times)]
    return [_Term(one.row, one.column, 1.0), _Term(one.than, other, -one.times), *gains]


def _other(one: Comparison) -> str:
    base = one.than_over or one.over
    other = str(one.than) if base is None or not isinstance(one.than, str) else f"{one.than} over {base}"
    return other if one.times == 1 else f"{one.times:g} × {other}"


def _printed(table: PaperTable, terms: Sequence[_Term], better: str | None) -> tuple[Cells, Cells | None]:
    """The paper's numbers of these cells, and the human values if they are the goal."""
    human = next((row.title for row in table.rows if row.method == HUMAN), "")

    def number(row: str, column: str) -> CellValue | str:
        value = table.printed(table.row(row), table.column(column)) if row else None
        return CellValue({NO_SEED: value}) if isinstance(value, float) else "it is not printed"

    cells = {(one.row, one.column): number(one.row, one.column) for one in terms}
    goals = {(one.row, one.column): number(human, one.column) for one in terms}
    return cells, goals if better == "human" else None


def _seed_differences(one: Comparison, terms: Sequence[_Term], cells: Cells, goals: Cells | None) -> dict[str, float]:
    """Weighted sum of the cells, seed by seed; a cell without seeds is used for every seed. None: a cell is missing.

    With ``goals``, a cell counts by its distance from the goal.
    """
    values = [_weighed(term, cells, goals) for term in terms]
    if any(not value for value in values):
        return {}
    constant = 0.0 if isinstance(one.than, str) else -one.times * one.than
    trained = [value for value in values if set(value) != {NO_SEED}]
    seeds = [seed for seed in trained[0] if all(seed in value for value in trained)] if trained else [NO_SEED]
    differences = {}
    for seed in seeds:
        parts = [*(value.get(seed, value.get(NO_SEED, 0.0)) for value in values), constant]
        total = math.fsum(parts)
        differences[seed] = 0.0 if abs(total) <= 1e-9 * max(map(abs, parts)) else total  # rounding decides nothing
    return differences


def _weighed(term: _Term, cells: Cells, goals: Cells | None) -> dict[str, float]:
    """A cell's numbers times its weight, by seed; empty if the cell or the human value has no number."""
    cell = cells[term.row, term.column]
    if not isinstance(cell, CellValue):
        return {}
    if goals is None:
        return {seed: term.weight * value for seed, value in cell.by_seed.items()}
    goal = goals.get((term.row, term.column))
    if not isinstance(goal, CellValue):
        return {}
    human = next(iter(goal.by_seed.values()))
    return {seed: term.weight * -abs(value - human) for seed, value in cell.by_seed.items()}


def _outcome(interval: tuple[float, float] | None, better: str | None) -> Outcome:
    """Outcome of a comparison: the side of zero on which the interval lies.

    Numbers without training seeds, such as sizes, have an interval of width 0. A tie is inconclusive.
    """
    if interval is None:
        return "inconclusive"
    low, high = interval if better != "lower" else (-interval[1], -interval[0])
    return "supported" if low > 0 else "not supported" if high < 0 else "inconclusive"


def _line(one: JudgedComparison) -> str:
    pair = f"{one.first} − {one.second}, {one.column}"
    printed = "" if one.printed is None else f"; paper {_signed(one.printed)}"
    if one.difference is None:
        return f"{pair}: we have no number{printed}"
    if not one.seeds:  # no training gave it
        return f"{pair}: {_signed(one.difference)}{printed}"
    if one.low is None or one.high is None:
        return f"{pair}: {_signed(one.difference)} (one seed so far{printed})"
    if one.difference == one.low == one.high == 0:
        return f"{pair}: equal with all {one.seeds} seeds{printed}"
    return f"{pair}: {_signed(one.difference)} ({_signed(one.low)} to {_signed(one.high)}, {one.seeds} seeds{printed})"


def _signed(value: float) -> str:
    return f"{value:+.3g}"
