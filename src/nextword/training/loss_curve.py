"""The loss curve of a training: whole over interruptions, up to the last step, and ended where the loss diverges."""

from __future__ import annotations

import math
from typing import Any

from transformers import TrainerCallback

from nextword.training.stateful_callback import StatefulCallback


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
        """Ends a training that cannot recover: after such a step, weights are no numbers any more."""
        if not math.isfinite(self.summed):
            raise DivergedError(f"diverged at step {state.global_step}: the loss is {self.summed}")


class DivergedError(ValueError):
    """A training whose loss is NaN or infinite; says at which step."""


class LastStepLogger(TrainerCallback):
    """Makes the training curve reach the last step, wherever the logging interval ends."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Asks for a log entry at the last step."""
        if state.global_step == state.max_steps:
            control.should_log = True
