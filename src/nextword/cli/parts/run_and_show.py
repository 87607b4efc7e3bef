"""Code that commands share: running a comparison and showing its results, Ctrl-C, and printing lines."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from nextword.cli.parts.errors import INTERRUPTED, RUNS_FAILED, complain
from nextword.runtime import processes

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from nextword.experiments.comparison.comparison_settings import CompareConfig
    from nextword.experiments.comparison.engines.engine import Engine
    from nextword.results.records import Results


def run_comparison(
    config: CompareConfig,
    out: Path,
    engine: Engine | None = None,
    shown: Callable[[Results], RenderableType] | None = None,
) -> Results:
    """Run the comparison ``config`` in the folder ``out``; print ``shown(results)`` and the path of the report.

    By default, ``shown`` returns the main table.

    Raises:
        typer.Exit: With code 130 after Ctrl-C; the finished runs and the command that resumes are then printed. With
            code 3 if runs failed.
    """
    from nextword.cli.parts.watch import failure_line, watching
    from nextword.experiments.comparison.all_methods import compare_methods
    from nextword.results.report import results_table

    quiet_libraries()
    console = Console()
    command = this_command()
    with interruptible("no run has started yet"), watching(console, "start", console) as progress:
        results = compare_methods(config, out, progress, command, engine)
    if not processes.is_main():
        return results
    console.print((shown or results_table)(results))
    print_line(console, f"Report: {(out / 'report.html').resolve()}")
    if results.failures:
        for run in results.failures:
            complain(failure_line(run), kind="failed")
        print_line(Console(stderr=True), f"To try again: {command}")
        raise typer.Exit(RUNS_FAILED)
    return results


def plain_table(left: Sequence[str], right: Sequence[str] = (), *, lined: bool = True, **columns: Any) -> Table:
    """A table without a frame, with columns titled ``left`` and, right-aligned, ``right``.

    ``lined`` adds a line below the headings. ``columns`` are further arguments of ``Table.add_column``.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if lined else None, padding=(0, 2, 0, 0), pad_edge=not lined)
    for title in left:
        table.add_column(title, **columns)
    for title in right:
        table.add_column(title, justify="right", **columns)
    return table


WRITING_SECONDS = 60.0
"""Seconds to wait for another command that writes results into the same folder."""


def print_line(console: Console, text: str) -> None:
    """Print a line unchanged: no markup, no highlighting, no line breaks."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def interruptible(kept: str | None = None, goes_on: bool = True) -> Iterator[None]:
    """In this block, Ctrl-C ends the command with exit code 130 and a message that says which results are kept.

    Args:
        kept: Description of the kept results, for interruptions without a message of their own. None: nothing is kept.
        goes_on: Whether the same command resumes the work. If it does, the message contains the command.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        nothing = "nothing was written; the same command starts from the beginning"
        complain(str(interruption) or kept or nothing, kind="interrupted")
        if goes_on and kept is not None:
            print_line(Console(stderr=True), f"To resume: {this_command()}")
        raise typer.Exit(INTERRUPTED) from None


def this_command() -> str:
    """The command line, quoted for the shell."""
    return shlex.join(["nextword", *sys.argv[1:]])


def quiet_libraries() -> None:
    """Turn off the progress bars of datasets and transformers, which would disturb those of nextword."""
    import datasets
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()
