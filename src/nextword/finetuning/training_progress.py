"""What a training tells whoever is watching it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

from transformers import TrainerCallback

from nextword.records.training_results import TrainingResults


class TrainingWatcher(Protocol):
    """Told about each step of a training, in the order in which they happen."""

    def began(self, stage: str) -> None:
        """A stage (data, model, training, measuring, ...) begins."""

    def advanced(self, fraction: float) -> None:
        """The share of the current stage that is done, 0 to 1."""

    def logged(self, step: int, steps: int, losses: dict[str, float]) -> None:
        """Losses of a step of so many, in nats per token, by name: ``loss``, ``validation loss``."""

    def ended(self, stage: str, seconds: float) -> None:
        """A stage is done."""

    def finished(self, results: TrainingResults, before: bool) -> None:
        """All is written; ``before``: by an earlier call, and this one did nothing."""


class SilentTrainingWatcher:
    """Nobody is watching."""

    def began(self, stage: str) -> None:
        """Says nothing."""

    def advanced(self, fraction: float) -> None:
        """Says nothing."""

    def logged(self, step: int, steps: int, losses: dict[str, float]) -> None:
        """Says nothing."""

    def ended(self, stage: str, seconds: float) -> None:
        """Says nothing."""

    def finished(self, results: TrainingResults, before: bool) -> None:
        """Says nothing."""


@contextlib.contextmanager
def stage_told(watcher: TrainingWatcher, stage: str) -> Iterator[Callable[[float], None]]:
    """Says that a stage begins, hands out the function that says how far it is, and says that it ended."""
    began = time.perf_counter()
    watcher.began(stage)
    yield watcher.advanced
    watcher.ended(stage, time.perf_counter() - began)


class StepTeller(TrainerCallback):
    """Passes on what Trainer says: the share of steps that are done, and losses."""

    NAMES: ClassVar = {"loss": "loss", "eval_loss": "validation loss"}

    def __init__(self, watcher: TrainingWatcher) -> None:
        self._watcher = watcher

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """One more step is done."""
        self._watcher.advanced(state.global_step / state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, **logged: Any) -> None:
        """Losses are known."""
        losses = {name: logged["logs"][key] for key, name in self.NAMES.items() if key in logged["logs"]}
        if losses:
            self._watcher.logged(state.global_step, state.max_steps, losses)
