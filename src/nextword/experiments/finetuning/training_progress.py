"""What a training tells whoever is watching it."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

from transformers import TrainerCallback

from nextword.experiments.finetuning import overfitting
from nextword.experiments.training.one_training import curve_of
from nextword.results.records.training_results import TrainingResults

logger = logging.getLogger(__name__)


class TrainingWatcher(Protocol):
    """Told about each step of a training, in the order in which they happen."""

    def began(self, stage: str) -> None:
        """A stage (data, model, training, measuring, ...) begins."""

    def advanced(self, fraction: float) -> None:
        """The share of the current stage that is done, 0 to 1."""

    def noted(self, sentence: str) -> None:
        """How often the data are read, before the first step."""

    def warned(self, sentence: str) -> None:
        """Something that the user should see and may want to change."""

    def logged(self, step: int, steps: int, losses: dict[str, float]) -> None:
        """Losses of a step of so many, in nats per token, by name: ``loss``, ``validation loss``."""

    def ended(self, stage: str, seconds: float) -> None:
        """A stage is done."""

    def finished(self, results: TrainingResults, before: bool) -> None:
        """All is written; ``before``: by an earlier call, and this one did nothing."""


class SilentTrainingWatcher:
    """Nobody is watching; warnings go to the log."""

    def began(self, stage: str) -> None:
        """Says nothing."""

    def advanced(self, fraction: float) -> None:
        """Says nothing."""

    def noted(self, sentence: str) -> None:
        """Says nothing."""

    def warned(self, sentence: str) -> None:
        """Logs it."""
        logger.warning(sentence)

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
    """Passes on what Trainer says: the share of steps that are done, losses, and once that validation losses rise.

    Args:
        watcher: Who is told.
        keep_best: Whether the weights of the lowest validation loss are kept.
    """

    NAMES: ClassVar = {"loss": "loss", "eval_loss": "validation loss"}

    def __init__(self, watcher: TrainingWatcher, keep_best: bool = False) -> None:
        self._watcher, self._keep_best = watcher, keep_best
        self._has_warned = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """One more step is done."""
        self._watcher.advanced(state.global_step / state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, **logged: Any) -> None:
        """Losses are known."""
        losses = {name: logged["logs"][key] for key, name in self.NAMES.items() if key in logged["logs"]}
        if losses:
            self._watcher.logged(state.global_step, state.max_steps, losses)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A validation loss is known; the last one is judged when all is finished."""
        curve = curve_of(state.log_history, "eval_loss")
        if not self._has_warned and state.global_step < state.max_steps and overfitting.rises_steadily(curve):
            self._has_warned = True
            self._watcher.warned(overfitting.warning(curve, self._keep_best, finished=False))
