"""What a finished training says about itself: loss curves and cost."""

from __future__ import annotations

from pydantic import Field

from nextword.results.records import Cost, CurvePoint, Record


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

        Steps go on counting, seconds add up, memory is the higher peak, and the time of a step is the mean of both by
        their numbers of steps.
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
