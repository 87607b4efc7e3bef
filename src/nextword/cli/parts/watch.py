"""Shows progress: bars on a terminal; of a comparison elsewhere one line per finished stage."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from nextword.cli.parts.run_and_show import print_line

if TYPE_CHECKING:
    from nextword.experiments.comparison.progress import ComparisonWatcher
    from nextword.results.records import FailedRun, RunRecord

WRITING_STEPS = 10_000
"""Of the bar that shows which share is written."""
QUIET_SECONDS = 5.0
"""A stage of an evaluation that begins after so long a silence is said in a line, elsewhere than on a terminal."""


def progress_bars(console: Console, *columns: ProgressColumn, before: tuple[ProgressColumn, ...] = ()) -> Progress:
    """Bars behind what they are about: on a terminal, and gone afterwards."""
    shown = (*before, TextColumn("{task.description}", markup=False), BarColumn(), *columns)
    return Progress(*shown, console=console, transient=True, disable=not console.is_terminal)


@contextlib.contextmanager
def waiting(console: Console, what: str) -> Iterator[Callable[[str], None]]:
    """A bar without an end, what is done and for how long, where nobody can say what share is done.

    ``what`` is done first; what follows is told to the function that this gives.
    """
    with progress_bars(console, TimeElapsedColumn()) as bars:
        task = bars.add_task(what, total=None)
        yield lambda now: bars.update(task, description=now)


@contextlib.contextmanager
def share_bars(console: Console) -> Iterator[Callable[[str, float], None]]:
    """A bar for each name that a share is told of, with the time left; before, one that swings."""
    with progress_bars(console, TaskProgressColumn(), TimeRemainingColumn()) as bars:
        opening = bars.add_task("opening the model", total=None)
        tasks: dict[str, TaskID] = {}

        def watch(name: str, share: float) -> None:
            if name not in tasks:
                bars.update(opening, visible=False)
                tasks[name] = bars.add_task(name, total=1.0)
            bars.update(tasks[name], completed=share)

        yield watch


@contextlib.contextmanager
def share_bar(console: Console) -> Iterator[Callable[[str, float], None]]:
    """One bar, told what is done now and which share was done before."""
    with progress_bars(console, TaskProgressColumn(), TimeElapsedColumn()) as bars:
        task = bars.add_task("", total=1.0)
        yield lambda what, share: bars.update(task, description=what, completed=share)


@contextlib.contextmanager
def writing_bar(console: Console) -> Iterator[Callable[[float], None]]:
    """One bar with the time left, told which share is written."""
    with progress_bars(console, TaskProgressColumn(), TimeRemainingColumn()) as bars:
        tasks: list[TaskID] = []

        def watch(share: float) -> None:
            done = round(WRITING_STEPS * share)
            if not tasks:  # what was there before counts as done, not as fast
                tasks.append(bars.add_task("writing", total=WRITING_STEPS, completed=done))
            bars.update(tasks[0], completed=done)

        yield watch


@contextlib.contextmanager
def stage_bar(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """One bar, told the stage and how much of how much of it is done; elsewhere a line on stderr for long stages."""
    if not console.is_terminal:
        yield _stage_lines()
        return
    with progress_bars(console, TimeElapsedColumn(), before=(SpinnerColumn(),)) as bars:
        task = bars.add_task("reading", total=None)
        yield lambda stage, done, total: bars.update(task, description=stage, completed=done, total=total or None)


def _stage_lines() -> Callable[[str, int, int], None]:
    last, spoken = "", time.monotonic()

    def watch(stage: str, done: int, total: int) -> None:
        nonlocal last, spoken
        if stage != last and time.monotonic() - spoken > QUIET_SECONDS:
            typer.echo(stage, err=True)
            spoken = time.monotonic()
        last = stage

    return watch


# -- A comparison, of which several runs may be at work at once.


@contextlib.contextmanager
def watching(console: Console) -> Iterator[ComparisonWatcher]:
    """What to pass to ``compare`` so that ``console`` shows it."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with progress_bars(console, MofNCompleteColumn(), TimeElapsedColumn()) as bars:
        yield _Bars(bars)


class _Lines:
    """One plain line per finished stage, for log files."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._runs = self._done = 0

    def planned(self, runs: int, finished: int) -> None:
        self._runs, self._done = runs, finished
        print_line(self._console, f"{runs} runs, {finished} finished before")

    def began(self, name: str, stage: str) -> None: ...

    def advanced(self, name: str, fraction: float) -> None: ...

    def ended(self, name: str, stage: str, seconds: float) -> None:
        print_line(self._console, f"{name}: {stage}, {seconds:.1f} s")

    def finished(self, record: RunRecord) -> None:
        self._done += 1
        print_line(self._console, f"[{self._done}/{self._runs}] {headline(record)}")

    def failed(self, run: FailedRun) -> None:
        print_line(self._console, f"failed: {failure_line(run)}")


class _Bars:
    """A bar for all runs above a bar for the current stage of each run at work."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._all = bars.add_task("start", total=None)
        self._stages: dict[str, TaskID] = {}

    def planned(self, runs: int, finished: int) -> None:
        self._bars.update(self._all, description="runs", total=runs, completed=finished)

    def began(self, name: str, stage: str) -> None:
        self._hide(name)
        self._stages[name] = self._bars.add_task(f"{name}: {stage}", total=100)

    def advanced(self, name: str, fraction: float) -> None:
        if name in self._stages:
            self._bars.update(self._stages[name], completed=round(100 * fraction))

    def ended(self, name: str, stage: str, seconds: float) -> None:
        self._hide(name)

    def finished(self, record: RunRecord) -> None:
        self._bars.advance(self._all)
        self._bars.console.print(headline(record), markup=False, highlight=False)

    def failed(self, run: FailedRun) -> None:
        own = f"{run.method}, seed {run.seed}"
        # the bars of the run itself, and of the search for its settings
        for name in [name for name in self._stages if name == own or name.startswith(f"{run.method} (")]:
            self._hide(name)
        self._bars.advance(self._all)
        self._bars.console.print(f"failed: {failure_line(run)}", markup=False, highlight=False)

    def _hide(self, name: str) -> None:
        if name in self._stages:
            self._bars.remove_task(self._stages.pop(name))


def headline(record: RunRecord) -> str:
    """One line about a finished run: its first three numbers, and the first of each other group of measures.

    Parts of the cases are left to the report, and so is a group of which no value is better than another (the rank).
    """
    from nextword.results.records import known_measure
    from nextword.results.report.formats import number

    measured = record.evaluation.metrics
    shown = [name for name in measured if not known_measure(name).subset][:3]
    groups = {known_measure(name).group for name in shown}
    for name in measured:
        one = known_measure(name)
        if one.group not in groups and one.goal and not one.subset and one.setting == "joint":
            groups.add(one.group)
            shown.append(name)
    numbers = ", ".join(f"{name} {number(measured[name].value)}" for name in shown)
    return f"{record.method}, seed {record.seed}: {numbers}"


def failure_line(run: FailedRun) -> str:
    """One line about a run that failed."""
    where = f" ({run.traceback})" if run.traceback else ""
    return f"{run.method}, seed {run.seed}: {run.reason}{where}"
