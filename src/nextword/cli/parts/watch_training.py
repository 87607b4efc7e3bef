"""Shows the progress of one training: a bar with the loss and the time left on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nextword.cli.parts.run_and_show import print_line
from nextword.cli.parts.watch import progress_bars

if TYPE_CHECKING:
    from nextword.experiments.training.training_progress import TrainingWatcher
    from nextword.results.records.comparison_results import TrainingResults

SECONDS_BETWEEN_LINES = 10.0
"""Losses of fewer seconds after the last line are left out, but for validation losses and the last step's."""
SHORT_STAGE = 1.0
"""Seconds that a stage must take to get a line of its own."""
WARNING = "warning"
"""How a warning begins."""


@contextlib.contextmanager
def watching_training(console: Console) -> Iterator[TrainingWatcher]:
    """What to pass to ``train`` so that ``console`` shows it."""
    if not console.is_terminal:
        yield _TrainingLines(console)
        return
    columns = (TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left", style="dim"), TimeRemainingColumn())
    with progress_bars(console, *columns) as bar:
        yield _TrainingBar(bar)


class _TrainingLines:
    """Plain lines, for log files."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._first: tuple[float, int] | None = None
        self._last_line = -SECONDS_BETWEEN_LINES

    def began(self, stage: str) -> None: ...

    def advanced(self, fraction: float) -> None: ...

    def noted(self, sentence: str) -> None:
        print_line(self._console, sentence)

    def warned(self, sentence: str) -> None:
        print_line(self._console, f"{WARNING}: {sentence}")

    def logged(self, step: int, steps: int, losses: dict[str, float]) -> None:
        now = self._clock()
        self._first = self._first or (now, step)
        if now - self._last_line < SECONDS_BETWEEN_LINES and "loss" in losses and step < steps:
            return
        self._last_line = now
        began, first = self._first
        left = (steps - step) * (now - began) / (step - first) if step > first else 0.0
        tail = f", {time_text(left)} left" if left else ""
        print_line(self._console, f"step {step} of {steps}: {losses_text(losses)}{tail}")

    def ended(self, stage: str, seconds: float) -> None:
        if seconds >= SHORT_STAGE:
            print_line(self._console, f"{stage}: {seconds:.1f} s")

    def finished(self, results: TrainingResults, before: bool) -> None: ...  # the command says it


class _TrainingBar:
    """One bar, for the current stage, with the last losses before it."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=1.0)
        self._stage = ""
        self._losses: dict[str, float] = {}

    def began(self, stage: str) -> None:
        self._stage, self._losses = stage, {}
        self._bar.reset(self._task, description=stage, total=1.0)

    def advanced(self, fraction: float) -> None:
        self._bar.update(self._task, completed=fraction)

    def noted(self, sentence: str) -> None:
        self._bar.console.print(sentence, markup=False, highlight=False)

    def warned(self, sentence: str) -> None:
        self._bar.console.print(f"{WARNING}: {sentence}", style="bold yellow", markup=False, highlight=False)

    def logged(self, step: int, steps: int, losses: dict[str, float]) -> None:
        self._losses |= losses
        self._bar.update(self._task, description=f"{self._stage}, step {step} of {steps}: {losses_text(self._losses)}")

    def ended(self, stage: str, seconds: float) -> None:
        self._bar.update(self._task, completed=1.0)

    def finished(self, results: TrainingResults, before: bool) -> None: ...  # the command says it


def losses_text(losses: dict[str, float]) -> str:
    """Losses by name, in one line.

    >>> losses_text({"loss": 3.14159, "validation loss": 2.7})
    'loss 3.142, validation loss 2.7'
    """
    return ", ".join(f"{name} {loss:.4g}" for name, loss in losses.items())


def time_text(seconds: float) -> str:
    """Seconds as a person says them.

    >>> time_text(8.2), time_text(150), time_text(9000)
    ('8 s', '2 min 30 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
