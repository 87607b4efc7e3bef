"""Run the experiments of tables, fill the tables with our numbers, and write a page per table and one for all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nextword.experiments.reproduction.experiment import WITHOUT_TRAINING
from nextword.experiments.reproduction.experiment_folder import ExperimentFolders, Request
from nextword.experiments.reproduction.paper import find_table, load_paper, names
from nextword.experiments.reproduction.table_numbers import ExperimentResults
from nextword.experiments.reproduction.table_record import table_record
from nextword.results.records import FailedRun
from nextword.results.records.reproduced_table import ReproducedTable
from nextword.runtime.progress import Watcher

logger = logging.getLogger(__name__)
ALL_TABLES = "index.html"


@dataclass(frozen=True)
class Reproduced:
    """Result of a reproduction.

    Attributes:
        tables: Filled tables, in the requested order.
        failures: Runs that failed; the same call tries them again.
    """

    tables: list[ReproducedTable]
    failures: list[FailedRun]


def tables_named(wanted: Sequence[str]) -> list[str]:
    """Names PAPER/TABLE of the tables in ``wanted``, each once. In ``wanted``, PAPER means all tables of a paper.

    Raises:
        ValueError: If a paper or table is unknown; the message suggests the nearest name.
    """
    tables: dict[str, None] = {}
    for one in wanted:
        paper, slash, _ = one.partition("/")
        if slash:
            find_table(one)
            tables[one] = None
        else:
            tables |= {f"{paper}/{table}": None for table in load_paper(paper).tables}
    return list(tables)


def all_tables() -> list[str]:
    """Names of all tables of all papers, as PAPER/TABLE."""
    return tables_named(names())


def needed_experiments(request: Request, folders: ExperimentFolders) -> list[str]:
    """Names of the experiments that fill the tables of ``request``, each once, without those not done at its scale."""
    needed: dict[str, None] = {}
    for name in request.tables:
        if find_table(name).kind not in WITHOUT_TRAINING:
            needed |= dict.fromkeys(one for one in request.experiments_of(name) if folders.at_scale(one) is not None)
    return list(needed)


def reproduce(
    request: Request,
    progress: Watcher | None = None,
    announce: Callable[[str, int, int], None] = lambda name, number, count: None,
) -> Reproduced:
    """Fill tables of the papers with our numbers.

    Finished runs of an earlier call are kept; the same call does the rest.

    Args:
        request: The tables, data and settings.
        progress: Watcher of the comparisons.
        announce: Function called when an experiment begins, with its name, its number and the number of experiments.

    Raises:
        ValueError: If data is missing or an override is wrong (before any run), or a comparison cannot begin.
        ComparisonInterrupted: On Ctrl-C; finished runs are kept.
    """
    folders = ExperimentFolders(request)
    needed = needed_experiments(request, folders)
    for name in needed:
        folders.config(name)  # data that is missing is said before anything is trained
    for doubt in dict.fromkeys(line for name in needed for line in folders.doubts(name)):
        logger.warning("%s", doubt)
    experiments: dict[str, ExperimentResults] = {}
    for number, name in enumerate(needed, 1):
        announce(name, number, len(needed))
        experiments[name] = folders.run(name, progress or Watcher())
        _fill(request, [table for table in request.tables if name in request.experiments_of(table)], experiments)
    for name in request.tables:
        for one in request.experiments_of(name):
            if one not in experiments and folders.at_scale(one) is not None:
                experiments[one] = folders.settings(one)
    failed = [run for one in experiments.values() if one.results is not None for run in one.results.failures]
    return Reproduced(_fill(request, request.tables, experiments), failed)


def _fill(request: Request, tables: Sequence[str], experiments: dict[str, ExperimentResults]) -> list[ReproducedTable]:
    from nextword.results.report import write_reproduced_tables

    filled = []
    for name in tables:
        record = table_record(name, find_table(name), experiments, request.scale, request.command)
        place = request.out / "tables" / request.scale / name
        record.save(place.with_suffix(".json"))
        write_reproduced_tables([record], place.with_suffix(".html"), root="../../../")
        filled.append(record)
    write_reproduced_tables(tables_in(request.out), request.out / ALL_TABLES)
    return filled


def tables_in(out: Path) -> list[ReproducedTable]:
    """Load all filled tables in the folder ``out``, in the order of the papers."""
    order = {name: number for number, name in enumerate(all_tables())}
    found = [ReproducedTable.load(path) for path in sorted((out / "tables").rglob("*.json"))]
    return sorted(found, key=lambda table: (order.get(table.name, len(order)), table.scale))
