"""Progress of a command, as bars on a terminal or as lines in log files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich import progress as rich_progress
from rich.console import Console
from rich.text import Text

from nextword.cli.parts.run_and_show import print_line
from nextword.runtime.progress import Watcher

if TYPE_CHECKING:
    from nextword.results.records import FailedRun, RunRecord


@contextlib.contextmanager
def watching(console: Console, first: str, elsewhere: Console | None = None) -> Iterator[Watcher]:
    """Yield a watcher that shows progress: bars if ``console`` is a terminal (removed at the end), otherwise lines.

    Args:
        console: The console for the bars.
        first: Label of the bar until the work reports its first stage.
        elsewhere: Console for the lines if ``console`` is not a terminal. None: nothing is printed.
    """
    if not console.is_terminal:
        yield Watcher() if elsewhere is None else _Lines(elsewhere)
        return
    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeElapsedColumn(),
        _TimeLeft(),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as bars:
        yield _Bars(bars, first)


class _TimeLeft(rich_progress.TimeRemainingColumn):
    def render(self, task: rich_progress.Task) -> Text:
        shown = super().render(task)
        return shown.append(" left", style="dim") if shown else shown


class _Bars(Watcher):
    """One bar for the whole work, and one bar per task with its stage and last losses."""

    def __init__(self, bars: rich_progress.Progress, first: str) -> None:
        self._bars = bars
        self._all = bars.add_task(first, total=None)
        self._share = 0.0
        self._runs = self._done = 0
        self._labels: dict[str, str] = {}
        self._tasks: dict[str, rich_progress.TaskID] = {}
        self._losses: dict[str, float] = {}

    def now(self, what: str, share: float | None = None) -> None:
        if share is not None and share < self._share:  # a new stage has begun
            self._bars.reset(self._all)
        self._share = self._share if share is None else share
        self._bars.update(self._all, description=what, completed=share, total=None if share is None else 1.0)

    def began(self, name: str, stage: str) -> None:
        self._hide(name)
        self._losses = {}
        self._labels[name] = _label(name, stage)
        self._tasks[name] = self._bars.add_task(self._labels[name], total=1.0)
        self._bars.update(self._all, visible=self._runs > 0)

    def advanced(self, name: str, share: float) -> None:
        if name not in self._tasks:
            self.began(name, "")
        self._bars.update(self._tasks[name], completed=share)

    def ended(self, name: str, stage: str, seconds: float) -> None:
        self._hide(name)

    def logged(self, name: str, step: int, steps: int, losses: dict[str, float]) -> None:
        self._losses |= losses
        shown = f"{self._labels[name]}, step {step} of {steps}: {losses_text(self._losses)}"
        self._bars.update(self._tasks[name], description=shown)

    def noted(self, sentence: str) -> None:
        self._print(sentence)

    def warned(self, sentence: str) -> None:
        self._print(f"{WARNING}: {sentence}", style="bold yellow")

    def planned(self, runs: int, finished: int) -> None:
        self._runs, self._done = runs, finished
        self._count()

    def finished(self, record: RunRecord) -> None:
        self._done += 1
        self._count()
        self._print(headline(record))

    def failed(self, run: FailedRun) -> None:
        own = f"{run.method}, seed {run.seed}"
        # the bars of the run, and of the search for its settings
        for name in [name for name in self._tasks if name == own or name.startswith(f"{run.method} (")]:
            self._hide(name)
        self._done += 1
        self._count()
        self._print(f"failed: {failure_line(run)}")

    def _count(self) -> None:
        self._bars.update(
            self._all,
            description=f"{self._done} of {self._runs} runs",
            total=self._runs,
            completed=self._done,
            visible=True,
        )

    def _hide(self, name: str) -> None:
        if name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))

    def _print(self, sentence: str, style: str = "") -> None:
        self._bars.console.print(sentence, style=style, markup=False, highlight=False)


QUIET_SECONDS = 5.0
"""Seconds without output after which a new stage is printed as a line."""
SECONDS_BETWEEN_LINES = 10.0
"""Minimum seconds between two lines of training losses. Validation losses and the last step always get a line."""
SHORT = 1.0
"""Minimum duration, in seconds, of a task without stages for which a line is printed."""
WARNING = "warning"
"""First word of a warning line."""


class _Lines(Watcher):
    """Progress as plain lines."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._what, self._spoken = "", clock()
        self._runs = self._done = 0
        self._first_step: tuple[float, int] | None = None
        self._last_losses = -SECONDS_BETWEEN_LINES

    def now(self, what: str, share: float | None = None) -> None:
        if what != self._what and self._clock() - self._spoken > QUIET_SECONDS:
            self._print(what)
            self._spoken = self._clock()
        self._what = what

    def ended(self, name: str, stage: str, seconds: float) -> None:
        if stage or seconds >= SHORT:
            self._print(f"{name}: {stage}, {seconds:.1f} s" if stage else f"{name}: {seconds:.1f} s")

    def logged(self, name: str, step: int, steps: int, losses: dict[str, float]) -> None:
        now = self._clock()
        self._first_step = self._first_step or (now, step)
        if now - self._last_losses < SECONDS_BETWEEN_LINES and "loss" in losses and step < steps:
            return
        self._last_losses = now
        began, first = self._first_step
        left = (steps - step) * (now - began) / (step - first) if step > first else 0.0
        tail = f", {time_text(left)} left" if left else ""
        self._print(f"step {step} of {steps}: {losses_text(losses)}{tail}")

    def noted(self, sentence: str) -> None:
        self._print(sentence)

    def warned(self, sentence: str) -> None:
        self._print(f"{WARNING}: {sentence}")

    def planned(self, runs: int, finished: int) -> None:
        self._runs, self._done = runs, finished
        self._print(f"{runs} runs, {finished} finished before")

    def finished(self, record: RunRecord) -> None:
        self._done += 1
        self._print(f"[{self._done}/{self._runs}] {headline(record)}")

    def failed(self, run: FailedRun) -> None:
        self._print(f"failed: {failure_line(run)}")

    def _print(self, sentence: str) -> None:
        print_line(self._console, sentence)


def _label(name: str, stage: str) -> str:
    return f"{name}: {stage}" if stage else name


def headline(record: RunRecord) -> str:
    """One line about a finished run: its first three metrics, and one metric of each further group.

    These further metrics are those of which a higher or lower value is better. Metrics of subsets appear only in the
    report.
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


def losses_text(losses: dict[str, float]) -> str:
    """Format ``losses``, a mapping from name to loss, as one line.

    >>> losses_text({"loss": 3.14159, "validation loss": 2.7})
    'loss 3.142, validation loss 2.7'
    """
    return ", ".join(f"{name} {loss:.4g}" for name, loss in losses.items())


def time_text(seconds: float) -> str:
    """Format a duration as seconds, minutes and seconds, or hours and minutes.

    >>> time_text(8.2), time_text(150), time_text(9000)
    ('8 s', '2 min 30 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
