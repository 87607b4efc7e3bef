"""What a piece of work tells its watcher: one object, which is passed down, and here nobody watches."""

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
    """Told about each step of some work, in the order in which they happen; a subclass shows those that it overrides.

    Several pieces of work may continue at the same time, each under its name and in one stage; their steps come in
    turns. ``with progress("softmax, seed 0", "training") as advanced`` brackets a stage and hands out the function that
    receives the share that is done.
    """

    @contextlib.contextmanager
    def __call__(self, name: str, stage: str = "") -> Iterator[Callable[[float], None]]:
        """Says that a stage begins, hands out the function that says how far it is, and says that it ended."""
        began = time.perf_counter()
        self.began(name, stage)
        yield functools.partial(self.advanced, name)
        self.ended(name, stage, time.perf_counter() - began)

    def now(self, what: str, share: float | None = None) -> None:
        """Report the current activity; ``share`` is the fraction of the whole work that is done, None if unknown."""

    def began(self, name: str, stage: str) -> None:
        """A stage (training, tuning, evaluation) begins; "" where the piece of work has only one."""

    def advanced(self, name: str, share: float) -> None:
        """The share that is done, 0 to 1, of the stage in which a piece of work is."""

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """A stage is done."""

    def logged(self, name: str, step: int, steps: int, losses: dict[str, float]) -> None:
        """Losses of a step of so many, in nats per token, by name: ``loss``, ``validation loss``."""

    def noted(self, sentence: str) -> None:
        """Something worth knowing before work begins."""

    def warned(self, sentence: str) -> None:
        """Something that the user should see and may want to change; where nobody watches, the log has it."""
        logger.warning(sentence)

    def planned(self, runs: int, finished: int) -> None:
        """How many runs a comparison has, and how many an earlier call finished."""

    def finished(self, record: RunRecord) -> None:
        """A run is done and written."""

    def failed(self, run: FailedRun) -> None:
        """A run ended with an error; the comparison continues without it."""
