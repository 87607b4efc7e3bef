"""Progress reports of long computations. The base class of watchers ignores all reports."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nextword.results.records import FailedRun, RunRecord

logger = logging.getLogger(__name__)


class Watcher:
    """Receives progress reports in order. A subclass overrides the methods of the reports that it shows.

    Several computations may run at the same time. Each has a name and is in one stage; their reports alternate.
    ``with progress("softmax, seed 0", "training") as advanced`` encloses a stage. It returns the function that reports
    the finished share.
    """

    @contextlib.contextmanager
    def __call__(self, name: str, stage: str = "") -> Iterator[Callable[[float], None]]:
        """Encloses a stage: reports its begin and end, and returns the function that reports the finished share."""
        began = time.perf_counter()
        self.began(name, stage)
        yield functools.partial(self.advanced, name)
        self.ended(name, stage, time.perf_counter() - began)

    def now(self, what: str, share: float | None = None) -> None:
        """``what`` is the current activity, and ``share`` the finished fraction of the whole work; None: unknown."""

    def began(self, name: str, stage: str) -> None:
        """A stage (training, tuning, evaluation) of ``name`` begins. ``stage`` is "" if there is only one stage."""

    def advanced(self, name: str, share: float) -> None:
        """The finished share, from 0 to 1, of a computation's current stage."""

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """A stage has ended."""

    def logged(self, name: str, step: int, steps: int, losses: dict[str, float]) -> None:
        """Losses at step ``step`` of ``steps``, in nats per token, by name: ``loss``, ``validation loss``."""

    def noted(self, sentence: str) -> None:
        """A note before a computation begins."""

    def warned(self, sentence: str) -> None:
        """A warning to the user. If there is no watcher, it is logged."""
        logger.warning(sentence)

    def planned(self, runs: int, finished: int) -> None:
        """Number of runs of a comparison, and number of runs that an earlier call has finished."""

    def finished(self, record: RunRecord) -> None:
        """A run is finished and saved."""

    def failed(self, run: FailedRun) -> None:
        """A run ended with an error. The comparison continues without it."""
