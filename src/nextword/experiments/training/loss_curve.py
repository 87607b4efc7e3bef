"""The loss curve of a training: whole over interruptions, to the last step; what diverges or falls no more is ended."""

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
    """The loss of the steps since the last point of the curve, kept in checkpoints.

    Trainer keeps it for itself and begins at zero where it resumes, so that the next point would be the mean over the
    steps since the checkpoint only.
    """

    checkpointed = ("summed", "since")

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    @property
    def summed(self) -> float:
        """Sum over the steps, in float32 as Trainer adds them up."""
        return self._trainer._tr_loss.item() if hasattr(self._trainer, "_tr_loss") else 0.0

    @summed.setter
    def summed(self, loss: float) -> None:
        self._trainer._tr_loss += loss  # zero until now

    @property
    def since(self) -> int:
        """The step of the last point."""
        return getattr(self._trainer, "_globalstep_last_logged", 0)

    @since.setter
    def since(self, step: int) -> None:
        self._trainer._globalstep_last_logged = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ends a training that cannot recover: after such a step, weights are NaN."""
        if not on_every_process(math.isfinite(self.summed), args.device):
            raise DivergedError(f"diverged at step {state.global_step}: the loss is {self.summed}")


class DivergedError(ValueError):
    """A training whose loss is NaN or infinite; says at which step."""


class LastStepLogger(TrainerCallback):
    """Makes the training curve reach the last step, wherever the logging interval ends."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Asks for a log entry at the last step."""
        if state.global_step == state.max_steps:
            control.should_log = True


class BestCheckpoint(TrainerCallback):
    """Makes each lower validation loss a checkpoint; Trainer remembers which was the lowest, and does not delete it.

    The folder in which checkpoints lie may have moved since the last interruption.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Says where the best one lies, if there is one."""
        if state.best_global_step:
            state.best_model_checkpoint = str(self._folder / f"checkpoint-{state.best_global_step}")

    def on_evaluate(self, args: Any, state: Any, control: Any, **evaluated: Any) -> None:
        """Asks for a checkpoint; Trainer compares and saves after this."""
        if state.best_metric is None or evaluated["metrics"]["eval_loss"] < state.best_metric:
            control.should_save = True


class EarlyStopping(StatefulCallback):
    """Ends a training whose validation loss has not fallen for a while.

    Args:
        patience: Validation losses without improvement that are borne.
        min_improvement: Nats per token by which one must be lower than the lowest before.
    """

    checkpointed = ("lowest", "waited")

    def __init__(self, patience: int, min_improvement: float) -> None:
        self._patience, self._min_improvement = patience, min_improvement
        self.lowest: float | None = None
        """The loss that must be improved on."""
        self.waited = 0
        """Losses since then."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **evaluated: Any) -> None:
        """Counts, and ends; the checkpoint is for a process that is killed between this and the saved model."""
        loss = evaluated["metrics"]["eval_loss"]
        if self.lowest is None or loss < self.lowest - self._min_improvement:
            self.lowest, self.waited = loss, 0
        else:
            self.waited += 1
        if self.waited >= self._patience:
            control.should_training_stop = True
            control.should_save = args.save_strategy != "no"

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ends a training that resumes from the checkpoint of its end."""
        if self.waited >= self._patience:
            control.should_training_stop = True


class TrainingOutcome(Record):
    """What a finished training says about itself."""

    curve: list[CurvePoint]
    """Training loss, nats per token, each point the mean since the one before."""
    validation_curve: list[CurvePoint] = Field(default=[])
    """Validation loss, nats per token, as Trainer averages it (over batches); empty without ``evaluate_every``."""
    best_step: int | None = None
    """The step whose weights these are, where those of the lowest validation loss were kept; None: of the last."""
    cost: Cost
    """Parameters, time and memory; see docs/compare.md for what each number means."""

    def followed_by(self, later: TrainingOutcome) -> TrainingOutcome:
        """This training and another of the same model after it, as one.

        Steps continue counting, seconds add up, memory is the higher peak, and the time of a step is the mean of both
        by their numbers of steps.
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


# -- Whether validation losses rise again: the model learns its training data by heart.

RISE = 0.01
"""Nats per token; a smaller rise does not count."""
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
