"""Progress reports of long computations. The base class of watchers logs warnings, and ignores all other reports."""

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

    Several computations may run at the same time. Each has a name and is in one stage, and their reports alternate.
    ``with progress("softmax, seed 0", "training") as advanced`` encloses a stage, where ``progress`` is the watcher.
    ``advanced(0.5)`` then reports that half of this stage is finished.
    """

    @contextlib.contextmanager
    def __call__(self, name: str, stage: str = "") -> Iterator[Callable[[float], None]]:
        """Encloses a ``stage`` of the computation ``name``. Yields a function that reports its finished share."""
        began = time.perf_counter()
        self.began(name, stage)
        yield functools.partial(self.advanced, name)
        self.ended(name, stage, time.perf_counter() - began)

    def now(self, what: str, share: float | None = None) -> None:
        """The current activity is ``what``. The fraction ``share`` of the whole work is finished (None: unknown)."""

    def began(self, name: str, stage: str) -> None:
        """The computation ``name`` begins ``stage``, such as "training"; "" if it has only one stage."""

    def advanced(self, name: str, share: float) -> None:
        """The fraction ``share`` of the current stage of the computation ``name`` is finished."""

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """The computation ``name`` has finished ``stage``, which took ``seconds``."""

    def logged(self, name: str, step: int, steps: int, losses: dict[str, float]) -> None:
        """The training ``name`` is at ``step`` of ``steps``. The keys of ``losses`` are "loss" or "validation loss"."""

    def noted(self, sentence: str) -> None:
        """A note to the user, such as the amount of data of a training."""

    def warned(self, sentence: str) -> None:
        """A warning to the user. This base class logs it."""
        logger.warning(sentence)

    def planned(self, runs: int, finished: int) -> None:
        """A comparison has ``runs`` runs, of which an earlier call has finished ``finished``."""

    def finished(self, record: RunRecord) -> None:
        """A run of a comparison is finished and saved."""

    def failed(self, run: FailedRun) -> None:
        """A run of a comparison ended with an error. The comparison continues without this run."""
