"""``nextword reproduce``: reproduce the papers' tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nextword.cli.parts.completion import complete_table
from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import EngineOptions, option_groups
from nextword.cli.parts.reproduction_plan import plan_reproduction
from nextword.runtime import processes
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from nextword.experiments.reproduction.experiment_folder import Request
    from nextword.experiments.reproduction.reproduce_tables import Reproduced
    from nextword.results.records.reproduced_table import Scale


class PlanOptions(Settings):
    """Options for printing a plan instead of running it."""

    dry_run: Annotated[bool, typer.Option("--dry-run")] = False
    """Check all inputs, run a few steps of each kind of training, and print the plan with expected time and
    memory."""
    gpu: str | None = None
    """With --dry-run: estimate the hours on this GPU, for instance "H100 80GB". "H100 80GB:0.45" assumes 45 % of
    the peak speed."""


class ReproduceOptions(Settings):
    """Options for the tables, their data and the results."""

    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PAPER[/TABLE]]... [KEY.PATH=VALUE]...", autocompletion=complete_table),
    ] = None
    """Tables to reproduce, or papers (all their tables), followed by settings that override those of every experiment.
    Without arguments, all tables are listed with their running times."""
    scale: Literal["small", "pretrained", "paper"] = "small"
    """small: models trained here in minutes. pretrained: SmolLM2-135M, in hours on two cores. paper: the paper's models
    and data, on a GPU."""
    data: list[str] | None = None
    """Folder with one subfolder per data set, or NAME=PATH for one data set. May be repeated."""
    judge: list[str] | None = None
    """Model-based metric with your local model, for instance factcc:model=FOLDER. The metric is computed in
    the experiments for which the paper reports it. May be repeated."""
    everything: Annotated[bool, typer.Option("--all")] = False
    """Reproduce all tables of all papers."""
    out: Path = Path("runs/reproduce")
    """Folder for all results."""


@plain_errors
@option_groups
def reproduce(asked: ReproduceOptions, computing: EngineOptions, planning: PlanOptions) -> None:
    """Measure the numbers of a paper's table, show them next to the published ones, and test the paper's claims.

    Trains and evaluates each needed model once, and writes the table as JSON and HTML. If you run the command again, it
    does only the unfinished runs.

    nextword reproduce histalign/table-1 --data DATA

    nextword reproduce f2-softmax --data DATA --dry-run

    nextword reproduce --all --data DATA --out runs/papers
    """
    from nextword.cli.parts.run_and_show import this_command
    from nextword.experiments.reproduction.data_sets import DataFolder
    from nextword.experiments.reproduction.experiment_folder import Request
    from nextword.experiments.reproduction.reproduce_tables import all_tables, tables_named

    changes = [word for word in asked.words or [] if "=" in word]
    named = [word for word in asked.words or [] if "=" not in word]
    if asked.everything and named:
        raise ValueError(
            f"--all: must be given without names of tables ({', '.join(named)} given); leave out --all or the names"
        )
    if not asked.everything and not named:
        _list_tables(asked.scale)
        return
    tables = all_tables() if asked.everything else tables_named(named)
    folder, engine = DataFolder.of_options(asked.data or []), computing.asked_for()
    request = Request(tables, asked.scale, folder, asked.out, changes, asked.judge or [], this_command(), engine)
    if planning.dry_run:
        plan_reproduction(request, planning.gpu)
    elif planning.gpu is not None:
        raise ValueError(
            "--gpu: must be given together with --dry-run, because it only changes the plan; add --dry-run or leave "
            "out --gpu"
        )
    else:
        _run(request)


def _list_tables(scale: Scale) -> None:
    from rich.console import Console
    from rich.table import Table

    from nextword.experiments.reproduction.experiment import effort
    from nextword.experiments.reproduction.paper import load_paper, names

    console = Console()
    for name in names():
        paper = load_paper(name)
        listing = Table(title=f"{paper.title} ({paper.venue})", title_justify="left", box=None, padding=(0, 2))
        listing.add_column("name", no_wrap=True)
        listing.add_column("what it shows")
        listing.add_column(f"scale {scale}", no_wrap=True)
        for own, table in paper.tables.items():
            listing.add_row(f"{name}/{own}", table.title, effort(table, scale))
        console.print(listing)
        console.print()


def _run(request: Request) -> None:
    from rich.console import Console

    from nextword.cli.parts.run_and_show import interruptible, quiet_libraries
    from nextword.cli.parts.watch import watching
    from nextword.experiments.reproduction.reproduce_tables import reproduce as reproduce_tables
    from nextword.experiments.training.one_training import fit_with_main

    quiet_libraries()
    if not processes.is_main():
        fit_with_main()
        return
    console = Console()

    def say(name: str, number: int, count: int) -> None:
        console.print(f"experiment {number} of {count}: {name}", markup=False, highlight=False)

    with (
        processes.leading(),
        interruptible("nothing was begun yet"),
        watching(console, "start", console) as progress,
    ):
        done = reproduce_tables(request, progress, say)
    _show(done, request, console)


def _show(done: Reproduced, request: Request, console: Console) -> None:
    from nextword.cli.parts.errors import RUNS_FAILED, complain
    from nextword.cli.parts.run_and_show import print_line
    from nextword.cli.parts.watch import failure_line
    from nextword.experiments.reproduction.reproduce_tables import ALL_TABLES
    from nextword.results.report import reproduced_table

    for table in done.tables:
        console.print(reproduced_table(table))
    print_line(console, f"Tables: {(request.out / ALL_TABLES).resolve()}")
    if done.failures:
        for run in done.failures:
            complain(failure_line(run), kind="failed")
        raise typer.Exit(RUNS_FAILED)
