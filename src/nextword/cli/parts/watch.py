"""Shows progress: bars on a terminal; of a comparison elsewhere one line per finished stage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from nextword.experiments.comparison.progress import ComparisonWatcher
    from nextword.results.records import FailedRun, RunRecord


@contextlib.contextmanager
def watching(console: Console) -> Iterator[ComparisonWatcher]:
    """What to pass to ``compare`` so that ``console`` shows it."""
    if not console.is_terminal:
        yield Lines(console)
        return
    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bars:
        yield Bars(bars)


@contextlib.contextmanager
def waiting(console: Console, what: str) -> Iterator[Callable[[str], None]]:
    """On a terminal a bar without an end, what is done and for how long, where nobody can say what share is done.

    Args:
        console: Where it is shown, and gone afterwards.
        what: What is done first; what follows is told to the function that this gives.
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    bars = Progress(*columns, console=console, transient=True)
    task = bars.add_task(what, total=None)
    with bars if console.is_terminal else contextlib.nullcontext():
        yield lambda now: bars.update(task, description=now)


@contextlib.contextmanager
def share_bars(console: Console) -> Iterator[Callable[[str, float], None]]:
    """On a terminal a bar for each name that a share is told of, with the time left; before, one that swings."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bars, tasks = Progress(*columns, console=console, transient=True), dict[str, TaskID]()
    opening = bars.add_task("opening the model", total=None)

    def watch(name: str, share: float) -> None:
        if name not in tasks:
            bars.update(opening, visible=False)
            tasks[name] = bars.add_task(name, total=1.0)
        bars.update(tasks[name], completed=share)

    with bars if console.is_terminal else contextlib.nullcontext():
        yield watch


@contextlib.contextmanager
def share_bar(console: Console) -> Iterator[Callable[[str, float], None]]:
    """On a terminal one bar, told what is done now and which share was done before."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    bars = Progress(*columns, console=console, transient=True)
    task = bars.add_task("", total=1.0)
    with bars if console.is_terminal else contextlib.nullcontext():
        yield lambda what, share: bars.update(task, description=what, completed=share)


class Lines:
    """One plain line per finished stage, for log files."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._runs = self._done = 0

    def planned(self, runs: int, finished: int) -> None:
        """Says how much there is to do."""
        self._runs, self._done = runs, finished
        self._say(f"{runs} runs, {finished} finished before")

    def began(self, name: str, stage: str) -> None:
        """Nothing to say yet."""

    def advanced(self, name: str, fraction: float) -> None:
        """Nothing to say yet."""

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """The stage and its time."""
        self._say(f"{name}: {stage}, {seconds:.1f} s")

    def finished(self, record: RunRecord) -> None:
        """The run and its first numbers."""
        self._done += 1
        self._say(f"[{self._done}/{self._runs}] {headline(record)}")

    def failed(self, run: FailedRun) -> None:
        """The run and what happened."""
        self._say(f"failed: {failure_line(run)}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Bars:
    """A bar for all runs above a bar for the current stage of each run at work."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._all = bars.add_task("start", total=None)
        self._stages: dict[str, TaskID] = {}

    def planned(self, runs: int, finished: int) -> None:
        """The first bar gets its length."""
        self._bars.update(self._all, description="runs", total=runs, completed=finished)

    def began(self, name: str, stage: str) -> None:
        """A bar begins."""
        self._hide(name)
        self._stages[name] = self._bars.add_task(f"{name}: {stage}", total=100)

    def advanced(self, name: str, fraction: float) -> None:
        """It moves."""
        if name in self._stages:
            self._bars.update(self._stages[name], completed=round(100 * fraction))

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """It goes."""
        self._hide(name)

    def finished(self, record: RunRecord) -> None:
        """The first bar moves, and the run's first numbers stay above."""
        self._bars.advance(self._all)
        self._bars.console.print(headline(record), markup=False, highlight=False)

    def failed(self, run: FailedRun) -> None:
        """The bars of the run and of its search go, the first moves, and what happened stays above."""
        own = f"{run.method}, seed {run.seed}"
        for name in [name for name in self._stages if name == own or name.startswith(f"{run.method} (")]:
            self._hide(name)
        self._bars.advance(self._all)
        self._bars.console.print(f"failed: {failure_line(run)}", markup=False, highlight=False)

    def _hide(self, name: str) -> None:
        if name in self._stages:
            self._bars.remove_task(self._stages.pop(name))


def headline(record: RunRecord, metrics: int = 3) -> str:
    """One line about a finished run: its first ``metrics`` numbers, and the first of each other group of measures.

    Parts of the cases are left to the report, and so is a group of which no value is better than another (the rank).
    """
    from nextword.results.report.formats import number
    from nextword.results.report.measures import measure

    measured = record.evaluation.metrics
    shown = [name for name in measured if not measure(name).subset][:metrics]
    groups = {measure(name).group for name in shown}
    for name in measured:
        one = measure(name)
        if one.group not in groups and one.better and not one.subset and one.setting == "joint":
            groups.add(one.group)
            shown.append(name)
    numbers = ", ".join(f"{name} {number(measured[name].value)}" for name in shown)
    return f"{record.method}, seed {record.seed}: {numbers}"


def failure_line(run: FailedRun) -> str:
    """One line about a run that failed."""
    where = f" ({run.traceback})" if run.traceback else ""
    return f"{run.method}, seed {run.seed}: {run.reason}{where}"
