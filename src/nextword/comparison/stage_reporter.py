"""Reports the stages of a comparison with the time that each took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from nextword.comparison.progress import ComparisonWatcher


class StageReporter:
    """``with stages("softmax, seed 0", "training") as advanced`` brackets one stage."""

    def __init__(self, progress: ComparisonWatcher) -> None:
        self.progress = progress

    @contextlib.contextmanager
    def __call__(self, name: str, stage: str) -> Iterator[Callable[[float], None]]:
        """Says that a stage begins, hands out the function that says how far it is, and says that it ended."""
        began = time.perf_counter()
        self.progress.began(name, stage)
        yield self.progress.advanced
        self.progress.ended(name, stage, time.perf_counter() - began)
