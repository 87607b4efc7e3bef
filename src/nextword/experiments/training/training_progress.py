"""What a training tells whoever is watching it."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

from transformers import TrainerCallback

from nextword.experiments.training.one_training import curve_of
from nextword.results.records import CurvePoint
from nextword.results.records.comparison_results import TrainingResults

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

    def _says_nothing(self, *args: Any, **kwargs: Any) -> None: ...

    began = advanced = noted = logged = ended = finished = _says_nothing

    def warned(self, sentence: str) -> None:
        """Logs it."""
        logger.warning(sentence)


@contextlib.contextmanager
def stage_told(watcher: TrainingWatcher, stage: str) -> Iterator[Callable[[float], None]]:
    """Says that a stage begins, hands out the function that says how far it is, and says that it ended."""
    began = time.perf_counter()
    watcher.began(stage)
    yield watcher.advanced
    watcher.ended(stage, time.perf_counter() - began)


class StepTeller(TrainerCallback):
    """Passes on what Trainer says: the share of steps that are done, losses, and once that validation losses rise."""

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
        if not self._has_warned and state.global_step < state.max_steps and rises_steadily(curve):
            self._has_warned = True
            self._watcher.warned(warning(curve, self._keep_best, finished=False))


# -- Whether validation losses rise again: the model learns its training data by heart.

RISE = 0.01
"""Nats per token; a smaller rise is no news."""
IN_A_ROW = 3
"""Validation losses above the lowest before it is said during a training: fewer may be chance."""


def risen(curve: Sequence[CurvePoint]) -> CurvePoint | None:
    """The lowest point of validation losses, where the last one is higher; None where it is not.

    >>> points = [CurvePoint(step=step, loss=loss) for step, loss in ((10, 5.0), (20, 4.0), (30, 4.5))]
    >>> risen(points).step, risen(points[:2])
    (20, None)
    """
    if not curve:
        return None
    lowest = min(curve, key=lambda point: point.loss)
    return lowest if curve[-1].loss > lowest.loss + RISE else None


def rises_steadily(curve: Sequence[CurvePoint]) -> bool:
    """Whether the last few losses all lie above the lowest one."""
    lowest = risen(curve)
    return lowest is not None and sum(point.step > lowest.step for point in curve) >= IN_A_ROW


def warning(curve: Sequence[CurvePoint], keep_best: bool, finished: bool) -> str:
    """What is said where validation losses have risen: since when, and what to do. Empty where they have not.

    ``keep_best`` says whether the weights of the lowest one are kept, ``finished`` whether the training is over.
    """
    lowest = risen(curve)
    if lowest is None:
        return ""
    last = curve[-1]
    found = (
        f"validation loss was lowest at step {lowest.step} ({lowest.loss:.3f}) and is {last.loss:.3f} at step "
        f"{last.step}: the model learns the training data by heart"
    )
    if not keep_best:
        return f"{found}. Give training.keep_best=true, training.steps={lowest.step}, or more text."
    kept = f"This is the model of step {lowest.step}" if finished else f"The weights of step {lowest.step} are kept"
    return f"{found}. {kept}; training.patience={IN_A_ROW} would stop soon after it."
