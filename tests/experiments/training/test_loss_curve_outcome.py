"""Two trainings of one model, one after the other, reported as one."""

from __future__ import annotations

import pytest

from nextword.experiments.training.loss_curve import TrainingOutcome
from nextword.results.records import Cost, CurvePoint


def test_costs_of_two_stages_are_one() -> None:
    cost = Cost(parameters=5, trained_parameters=3, ms_per_step=10.0, peak_memory_mib=7.0, train_seconds=1.0)
    later = cost.model_copy(update={"trained_parameters": 5, "ms_per_step": 40.0, "peak_memory_mib": 6.0})
    points = [CurvePoint(step=step, loss=1.0) for step in (1, 20)]
    both = TrainingOutcome(curve=points, validation_curve=points, cost=cost).followed_by(
        TrainingOutcome(curve=[points[0], CurvePoint(step=10, loss=0.5)], validation_curve=points[:1], cost=later)
    )
    assert [point.step for point in both.curve] == [1, 20, 21, 30]
    assert [point.step for point in both.validation_curve] == [1, 20, 21]
    assert both.cost.ms_per_step == pytest.approx((20 * 10 + 10 * 40) / 30)
    assert (both.cost.train_seconds, both.cost.peak_memory_mib, both.cost.trained_parameters) == (2.0, 7.0, 5)
