"""Fills a table of a paper from the results of its experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nextword.records import Environment, Results
from nextword.records.reproduced_table import (
    RanExperiment,
    ReproducedCell,
    ReproducedColumn,
    ReproducedRow,
    ReproducedTable,
)
from nextword.reproduction.experiment import Scale, find_experiment
from nextword.reproduction.paper import Address, Column, Row, Table, load_paper
from nextword.reproduction.table_numbers import (
    HUMAN,
    CellValue,
    MissingValueError,
    added,
    cell_value,
    data_value,
    is_of_data,
    is_of_settings,
    setting_value,
)
from nextword.reproduction.verdict import judged_claims


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
    paper = load_paper(name.partition("/")[0])
    places = [(row, column) for row in table.rows for column in table.columns]
    cells = {_key(row, column): _found(table.address(row, column), experiments, scale) for row, column in places}
    people = {
        _key(row, column): _found(_of_people(table.address(row, column)), experiments, scale) for row, column in places
    }
    shown = next((ran.report for one in table.experiments if (ran := _record(experiments, one)) and ran.report), None)
    return ReproducedTable(
        name=name,
        paper=f"{paper.title}. {paper.authors}. {paper.venue}.",
        title=table.title,
        place=table.place,
        scale=scale,
        columns=[
            ReproducedColumn(title=one.title, group=one.group, unit=one.unit, better=one.better)
            for one in table.columns
        ],
        rows=[
            ReproducedRow(
                title=row.title,
                cells=[_cell(table, row, column, cells[_key(row, column)]) for column in table.columns],
                note=row.note,
            )
            for row in table.rows
        ],
        claims=judged_claims(table, cells, people, scale),
        shown_in=f"{shown}#{table.section}" if shown and table.section else None,
        note=table.note,
        experiments=[ran for one in table.experiments if (ran := _record(experiments, one))],
        command=command,
        environment=Environment.collect(),
    )


def _key(row: Row, column: Column) -> tuple[str, str]:
    return row.title, column.name


def _of_people(address: Address) -> Address:
    return Address(method=HUMAN).within(address)


def _record(experiments: Mapping[str, ExperimentResults], name: str) -> RanExperiment | None:
    return experiments[name].record if name in experiments else None


def _found(address: Address, experiments: Mapping[str, ExperimentResults], scale: Scale) -> CellValue | str:
    """Our number, or why there is none."""
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
