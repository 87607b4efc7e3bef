"""What a training tells whoever is watching it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from transformers import TrainerCallback

from nextword.experiments.training.one_training import curve_of
from nextword.results.records import CurvePoint
from nextword.runtime.progress import Watcher


class StepTeller(TrainerCallback):
    """Passes on what Trainer says: the share of steps that are done, losses, and once that validation losses rise."""

    NAMES: ClassVar = {"loss": "loss", "eval_loss": "validation loss"}

    def __init__(self, progress: Watcher, name: str, keep_best: bool = False) -> None:
        self._progress, self._name, self._keep_best = progress, name, keep_best
        self._has_warned = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """One more step is done."""
        self._progress.advanced(self._name, state.global_step / state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, **logged: Any) -> None:
        """Losses are known."""
        losses = {name: logged["logs"][key] for key, name in self.NAMES.items() if key in logged["logs"]}
        if losses:
            self._progress.logged(self._name, state.global_step, state.max_steps, losses)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A validation loss is known; the last one is judged when all is finished."""
        curve = curve_of(state.log_history, "eval_loss")
        if not self._has_warned and state.global_step < state.max_steps and rises_steadily(curve):
            self._has_warned = True
            self._progress.warned(warning(curve, self._keep_best, finished=False))


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
