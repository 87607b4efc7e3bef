"""Fills a table of a paper from the results of its experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nextword.experiments.reproduction.experiment import Scale, find_experiment
from nextword.experiments.reproduction.paper import Address, Column, Row, Table, find_table, load_paper
from nextword.experiments.reproduction.table_numbers import (
    HUMAN,
    NO_SEED,
    CellValue,
    MissingValueError,
    added,
    cell_value,
    data_value,
    is_of_data,
    is_of_settings,
    setting_value,
)
from nextword.experiments.reproduction.verdict import Cells, judged_claims
from nextword.results.records import Environment, Results
from nextword.results.records.reproduced_table import (
    RanExperiment,
    ReproducedCell,
    ReproducedColumn,
    ReproducedRow,
    ReproducedTable,
)


@dataclass(frozen=True)
class ExperimentResults:
    """What is known of one experiment.

    Attributes:
        settings: Of its comparison, with defaults.
        results: Of its runs; ``None``: it was not run, since settings and data are all that is asked for.
        record: How it was run.
        data: Gives what its task says of its data, where it was not run.
    """

    settings: Mapping[str, Any]
    results: Results | None = None
    record: RanExperiment | None = None
    data: Callable[[], Mapping[str, Any]] = dict


def table_record(
    name: str, table: Table, experiments: Mapping[str, ExperimentResults], scale: Scale, command: str
) -> ReproducedTable:
    """The table with our numbers beside the printed ones, and its claims tested.

    Args:
        name: PAPER/TABLE.
        table: The table.
        experiments: By name; one that is missing is not done at this scale.
        scale: Of the experiments.
        command: What makes it again.
    """
    table = table.at(scale)
    cells = {_key(*place): _found(table, *place, experiments, scale) for place in table.places}
    shown = next((ran.report for one in table.experiments if (ran := _record(experiments, one)) and ran.report), None)
    return ReproducedTable(
        **_defined(name, table, cells, scale),
        shown_in=f"{shown}#{table.section}" if shown and table.section else None,
        experiments=[ran for one in table.experiments if (ran := _record(experiments, one))],
        command=command,
        environment=Environment.collect(),
    )


def renewed(record: ReproducedTable) -> ReproducedTable:
    """A record under its table's present definition: rows, notes and claims are today's, numbers are the record's.

    A row that the record lacks was not run yet.
    """
    table = find_table(record.name).at(record.scale)
    titles = [f"{one.group}: {one.title}" if one.group else one.title for one in record.columns]
    kept = {
        (row.title, title): _kept(cell) for row in record.rows for title, cell in zip(titles, row.cells, strict=True)
    }
    cells = {_key(*one): kept.get(_key(*one)) or _found(table, *one, {}, record.scale) for one in table.places}
    return record.model_copy(update=_defined(record.name, table, cells, record.scale))


def _defined(name: str, table: Table, cells: Cells, scale: Scale) -> dict[str, Any]:
    """What the table's definition says, with our numbers."""
    paper = load_paper(name.partition("/")[0])
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
        "differs": _differences(table, scale),
    }


def _differences(table: Table, scale: Scale) -> list[str]:
    """What is not the paper's own in the experiments that fill it, each once."""
    done = [one for name in table.experiments if (one := find_experiment(name).at(scale)) is not None]
    return list(dict.fromkeys(line for one in done for line in one.differs))


def _goals(table: Table, cells: Cells) -> Cells:
    """For each cell that of people's row at the same address."""
    people = [(row, column) for row, column in table.places if table.address(row, column).method == HUMAN]
    found = {table.address(*place): cells[_key(*place)] for place in people}
    goals = {_key(*place): found.get(Address(method=HUMAN).within(table.address(*place))) for place in table.places}
    return {place: cell for place, cell in goals.items() if cell is not None}


def _kept(cell: ReproducedCell) -> CellValue | str:
    """A cell of a record as it was before it was written down."""
    if cell.value is None:
        return cell.missing or "it was not measured"
    if isinstance(cell.value, str):
        return CellValue(text=cell.value)
    return CellValue(cell.by_seed or {NO_SEED: cell.value}, cell.low, cell.high)


def _key(row: Row, column: Column) -> tuple[str, str]:
    return row.title, column.name


def _record(experiments: Mapping[str, ExperimentResults], name: str) -> RanExperiment | None:
    return experiments[name].record if name in experiments else None


def _found(
    table: Table, row: Row, column: Column, experiments: Mapping[str, ExperimentResults], scale: Scale
) -> CellValue | str:
    """Our number, or why there is none."""
    if column.name in row.elsewhere:
        return CellValue({NO_SEED: row.elsewhere[column.name]})
    address = table.address(row, column)
    names = [name for name in (address.experiment, address.plus) if name is not None]
    if not names or address.measure is None:
        return "nothing here gives this number"
    for name in names:
        if name not in experiments:
            return f"not at scale {scale}" if find_experiment(name).at(scale) is None else "not run yet"
    try:
        values = [_of_experiment(address, experiments[name]) for name in names]
    except MissingValueError as problem:
        return str(problem)
    return values[0] if address.plus is None else added(*values)


def _of_experiment(address: Address, one: ExperimentResults) -> CellValue:
    if one.results is not None:
        return cell_value(address, one.results, one.settings)
    if is_of_settings(address):
        return setting_value(address, one.settings)
    if is_of_data(address):
        return data_value(address, one.data())
    raise MissingValueError("the experiment was not run")


def _cell(table: Table, row: Row, column: Column, ours: CellValue | str) -> ReproducedCell:
    printed = table.printed(row, column)
    spread = row.spreads[table.columns.index(column)] if row.spreads else None
    cell = ReproducedCell(printed=printed, spread=None if spread is None or spread != spread else spread)
    if isinstance(ours, str):
        return cell.model_copy(update={"missing": ours})
    return cell.model_copy(
        update={"value": ours.value, "low": ours.low, "high": ours.high, "by_seed": dict(ours.by_seed)}
    )
