"""What a comparison tells whoever is watching it, stage by stage."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from nextword.results.records import FailedRun, RunRecord


class ComparisonWatcher(Protocol):
    """Told about each step of a comparison, in the order in which they happen.

    Several runs may be at work at the same time, each in one stage; their steps come in turns.
    """

    def planned(self, runs: int, finished: int) -> None:
        """How many runs there are, and how many an earlier call finished."""

    def began(self, name: str, stage: str) -> None:
        """A stage (training, tuning, evaluation) of a run, or of the common start, begins."""

    def advanced(self, name: str, fraction: float) -> None:
        """The share of the stage that is done which the run, or the common start, is in, 0 to 1."""

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """A stage is done."""

    def finished(self, record: RunRecord) -> None:
        """A run is done and written."""

    def failed(self, run: FailedRun) -> None:
        """A run ended with an error; the comparison goes on without it."""


class SilentWatcher:
    """Nobody is watching."""

    def _says_nothing(self, *args: Any, **kwargs: Any) -> None: ...

    planned = began = advanced = ended = finished = failed = _says_nothing


class RelayingWatcher:
    """Hands everything on to another; what one adds to that is for subclasses to say."""

    def __init__(self, inner: ComparisonWatcher) -> None:
        self.inner = inner

    def planned(self, runs: int, finished: int) -> None:
        """Hands it on."""
        self.inner.planned(runs, finished)

    def began(self, name: str, stage: str) -> None:
        """Hands it on."""
        self.inner.began(name, stage)

    def advanced(self, name: str, fraction: float) -> None:
        """Hands it on."""
        self.inner.advanced(name, fraction)

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """Hands it on."""
        self.inner.ended(name, stage, seconds)

    def finished(self, record: RunRecord) -> None:
        """Hands it on."""
        self.inner.finished(record)

    def failed(self, run: FailedRun) -> None:
        """Hands it on."""
        self.inner.failed(run)


class StageReporter:
    """``with stages("softmax, seed 0", "training") as advanced`` brackets one stage."""

    def __init__(self, progress: ComparisonWatcher) -> None:
        self.progress = progress

    @contextlib.contextmanager
    def __call__(self, name: str, stage: str) -> Iterator[Callable[[float], None]]:
        """Says that a stage begins, hands out the function that says how far it is, and says that it ended."""
        began = time.perf_counter()
        self.progress.began(name, stage)
        yield functools.partial(self.progress.advanced, name)
        self.progress.ended(name, stage, time.perf_counter() - began)
