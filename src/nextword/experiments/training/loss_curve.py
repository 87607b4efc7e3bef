"""The loss curve of a training, complete even after interruptions; early stopping, and stopping on divergence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field
from transformers import TrainerCallback

from nextword.experiments.training.resume import StatefulCallback
from nextword.objectives.objective import on_every_process
from nextword.results.records import Cost, CurvePoint, Record


class RunningLoss(StatefulCallback):
    """Callback that stores in checkpoints the loss since the last point of the training curve.

    Trainer does not store this loss. Without the callback, the next point of a resumed training would be the mean over
    only the steps since the checkpoint.
    """

    checkpointed = ("summed", "since")

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    @property
    def summed(self) -> float:
        """Sum of the steps' losses since the last point of the curve, in float32 as in Trainer."""
        return self._trainer._tr_loss.item() if hasattr(self._trainer, "_tr_loss") else 0.0

    @summed.setter
    def summed(self, loss: float) -> None:
        self._trainer._tr_loss += loss  # it is zero before

    @property
    def since(self) -> int:
        """Step of the last point of the curve."""
        return getattr(self._trainer, "_globalstep_last_logged", 0)

    @since.setter
    def since(self, step: int) -> None:
        self._trainer._globalstep_last_logged = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Raise DivergedError if the loss is NaN or infinite, because the weights are then NaN."""
        if not on_every_process(math.isfinite(self.summed), args.device):
            raise DivergedError(f"diverged at step {state.global_step}: the loss is {self.summed}")


class DivergedError(ValueError):
    """The loss of a training is NaN or infinite. The message names the step."""


class LastStepLogger(TrainerCallback):
    """Callback that adds the last step to the training curve."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Request a log entry at the last step."""
        if state.global_step == state.max_steps:
            control.should_log = True


class BestCheckpoint(TrainerCallback):
    """Callback that saves a checkpoint at each new lowest validation loss. Trainer keeps the best checkpoint.

    Trainer finds the best checkpoint even if the folder of checkpoints was moved after an interruption.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Set the path of the best checkpoint, if there is one."""
        if state.best_global_step:
            state.best_model_checkpoint = str(self._folder / f"checkpoint-{state.best_global_step}")

    def on_evaluate(self, args: Any, state: Any, control: Any, **evaluated: Any) -> None:
        """Request a checkpoint if the validation loss is lower than all before. Trainer saves it afterwards."""
        if state.best_metric is None or evaluated["metrics"]["eval_loss"] < state.best_metric:
            control.should_save = True


class EarlyStopping(StatefulCallback):
    """Callback that stops a training whose validation loss no longer falls.

    Args:
        patience: Number of validation losses in a row without improvement before stopping.
        min_improvement: A loss is an improvement if it is lower than that of the last improvement by more than this
            value, in nats per token.
    """

    checkpointed = ("lowest", "waited")

    def __init__(self, patience: int, min_improvement: float) -> None:
        self._patience, self._min_improvement = patience, min_improvement
        self.lowest: float | None = None
        """Loss of the last improvement."""
        self.waited = 0
        """Number of losses since the last improvement."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **evaluated: Any) -> None:
        """Count losses without improvement. After ``patience`` of them, save a checkpoint and stop."""
        loss = evaluated["metrics"]["eval_loss"]
        if self.lowest is None or loss < self.lowest - self._min_improvement:
            self.lowest, self.waited = loss, 0
        else:
            self.waited += 1
        if self.waited >= self._patience:
            control.should_training_stop = True
            control.should_save = args.save_strategy != "no"

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop a training that resumes from the checkpoint at which it was stopped early."""
        if self.waited >= self._patience:
            control.should_training_stop = True


class TrainingOutcome(Record):
    """Loss curves and cost of a finished training."""

    curve: list[CurvePoint]
    """Training loss in nats per token; each point is the mean since the previous point."""
    validation_curve: list[CurvePoint] = Field(default=[])
    """Validation loss in nats per token, averaged over batches as in Trainer. Empty without ``evaluate_every``."""
    best_step: int | None = None
    """Step with the lowest validation loss, if its weights are kept. None: the weights are those of the last step."""
    cost: Cost
    """Parameters, time and memory, explained in docs/compare.md."""

    def followed_by(self, later: TrainingOutcome) -> TrainingOutcome:
        """Combine this outcome with ``later``, the outcome of a following training of the same model.

        The step numbers of ``later`` continue those of this training, and seconds add up. The peak memory is the higher
        of the two, and the time per step is their mean, weighted by the numbers of steps.
        """
        steps = [outcome.curve[-1].step if outcome.curve else 0 for outcome in (self, later)]
        costs = [self.cost, later.cost]
        seconds = [cost.train_seconds for cost in costs if cost.train_seconds is not None]
        peaks = [cost.peak_memory_mib for cost in costs if cost.peak_memory_mib is not None]
        timed = [(cost.ms_per_step, n) for cost, n in zip(costs, steps, strict=True) if cost.ms_per_step is not None]
        counted = sum(n for _, n in timed)
        cost = later.cost.model_copy(
            update={
                "trained_parameters": max(cost.trained_parameters for cost in costs),
                "trained": self.cost.trained | later.cost.trained,
                "train_seconds": sum(seconds) if seconds else None,
                "peak_memory_mib": max(peaks, default=None),
                "ms_per_step": sum(ms * n for ms, n in timed) / counted if counted else None,
            }
        )
        return TrainingOutcome(
            curve=[*self.curve, *_later(later.curve, steps[0])],
            validation_curve=[*self.validation_curve, *_later(later.validation_curve, steps[0])],
            cost=cost,
        )


def _later(curve: list[CurvePoint], steps: int) -> list[CurvePoint]:
    return [CurvePoint(step=steps + point.step, loss=point.loss) for point in curve]


# -- Whether validation losses rise again, which means that the model memorises its training data.

RISE = 0.01
"""A validation loss counts as higher than the lowest if it is higher by more than this value, in nats per token."""
IN_A_ROW = 3
"""Number of validation losses after the lowest before a warning. Fewer may be chance."""


def risen(curve: Sequence[CurvePoint]) -> CurvePoint | None:
    """The point with the lowest loss if the last loss is higher by more than ``RISE``, otherwise None.

    >>> points = [CurvePoint(step=step, loss=loss) for step, loss in ((10, 5.0), (20, 4.0), (30, 4.5))]
    >>> risen(points).step, risen(points[:2])
    (20, None)
    """
    if not curve:
        return None
    lowest = min(curve, key=lambda point: point.loss)
    return lowest if curve[-1].loss > lowest.loss + RISE else None


def rises_steadily(curve: Sequence[CurvePoint]) -> bool:
    """Whether the last loss is above the lowest (see ``risen``), and at least ``IN_A_ROW`` losses follow the lowest."""
    lowest = risen(curve)
    return lowest is not None and sum(point.step > lowest.step for point in curve) >= IN_A_ROW


def warning(curve: Sequence[CurvePoint], keep_best: bool, finished: bool) -> str:
    """The warning that validation losses rise, with advice. Empty if ``risen`` returns None.

    ``keep_best`` is whether the weights of the lowest loss are kept, ``finished`` whether the training is over.
    """
    lowest = risen(curve)
    if lowest is None:
        return ""
    last = curve[-1]
    found = (
        f"validation loss was lowest at step {lowest.step} ({lowest.loss:.3f}) and is {last.loss:.3f} at step "
        f"{last.step}: the model overfits the training data"
    )
    if not keep_best:
        return f"{found}. Give training.keep_best=true, training.steps={lowest.step}, or more text."
    kept = f"This is the model of step {lowest.step}" if finished else f"The weights of step {lowest.step} are kept"
    return f"{found}. {kept}; training.patience={IN_A_ROW} would stop the training soon after it."
