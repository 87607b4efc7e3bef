"""Intervals against simulated judges whose true preference is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from nextword.evaluation.metrics.statistics import Statistic
from nextword.evaluation.survey.survey_table import Crossing, two_level_intervals

SIMULATIONS = 1000
SEED = 2611
"""Not one of those by which the form of the intervals was chosen."""


def design(items: int, per_form: int, judges: int) -> Crossing:
    """Forms of ``per_form`` items, each judged by ``judges`` people of its own: as ``survey make`` deals them."""
    item, slot = np.divmod(np.arange(items * judges), judges)
    return Crossing(item, item // per_form * judges + slot)


def simulated(crossing: Crossing, of_items: float, of_judges: float, of_answers: float, seed: int = SEED) -> np.ndarray:
    """Deviations of every answer from the truth, (simulations, N): of its item, its judge and its own."""
    rng = np.random.default_rng(seed)
    items = rng.normal(0, of_items, (SIMULATIONS, crossing.items.max() + 1))
    judges = rng.normal(0, of_judges, (SIMULATIONS, crossing.judges.max() + 1))
    own = rng.normal(0, of_answers, (SIMULATIONS, len(crossing.items)))
    found: np.ndarray = items[:, crossing.items] + judges[:, crossing.judges] + own
    return found


def coverage(crossing: Crossing, answers: np.ndarray, truth: float) -> float:
    levels = [crossing.levels(Statistic.mean(row)) for row in answers]
    intervals = two_level_intervals(levels, resamples=1000, seed=1)
    held = [one is not None and one[0] <= truth <= one[1] for one in intervals]
    return float(np.mean(held))


DESIGNS = {"the paper's 100 items x 3 judges": (100, 20, 3), "a judge for few items": (60, 3, 5)}
CHANCES = {"items differ": (0.6, 0.0, 0.8), "judges differ too": (0.5, 0.3, 0.8)}
UNUSUAL = {
    "neither items nor judges differ": ((100, 20, 3), (0.0, 0.0, 1.0)),
    "six judges, items differ": ((60, 30, 3), (0.6, 0.0, 0.8)),
    "six judges who differ": ((60, 30, 3), (0.5, 0.3, 0.8)),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("sizes", DESIGNS.values(), ids=DESIGNS)
@pytest.mark.parametrize("chances", CHANCES.values(), ids=CHANCES)
def test_intervals_hold_a_known_mean(sizes: tuple[int, int, int], chances: tuple[float, float, float]) -> None:
    crossing = design(*sizes)
    assert 0.93 <= coverage(crossing, 0.3 + simulated(crossing, *chances), 0.3) <= 0.97


@pytest.mark.few(1)
@pytest.mark.parametrize("sizes", DESIGNS.values(), ids=DESIGNS)
@pytest.mark.parametrize("chances", CHANCES.values(), ids=CHANCES)
def test_intervals_hold_a_known_preference(sizes: tuple[int, int, int], chances: tuple[float, float, float]) -> None:
    crossing = design(*sizes)
    preferred = (simulated(crossing, *chances, seed=SEED + 100) > -0.25).astype(np.float64)
    truth = float(norm.cdf(0.25 / np.linalg.norm(chances)))
    assert 0.93 <= coverage(crossing, preferred, truth) <= 0.97


@pytest.mark.few(1)
@pytest.mark.parametrize(("sizes", "chances"), UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_surveys_err_on_the_wide_side(sizes: tuple[int, int, int], chances: tuple[float, float, float]) -> None:
    crossing = design(*sizes)
    assert 0.93 <= coverage(crossing, 0.3 + simulated(crossing, *chances), 0.3) <= 0.985


@pytest.mark.slow
def test_drawing_items_alone_would_miss_judges() -> None:
    """The second level is needed: with one judge level ignored the intervals are too narrow."""
    crossing = design(60, 30, 3)
    answers = 0.3 + simulated(crossing, 0.5, 0.3, 0.8)
    alone = Crossing(crossing.items, np.zeros_like(crossing.judges))
    assert coverage(alone, answers, 0.3) < 0.85 < coverage(crossing, answers, 0.3)


def test_a_difference_is_that_of_the_values() -> None:
    crossing = design(10, 5, 2)
    first, second = np.arange(20.0), np.arange(20.0)[::-1] / 2
    one, other = crossing.levels(Statistic.mean(first)), crossing.levels(Statistic.mean(second))
    assert one.less(other).value == pytest.approx(first.mean() - second.mean())
    assert one.less(other).judges.value == one.less(other).cells.value == one.less(other).value


def test_what_cannot_vary_has_no_width_and_one_item_no_interval() -> None:
    crossing = design(10, 5, 2)
    assert two_level_intervals([crossing.levels(Statistic.mean(np.ones(20)))]) == [(1.0, 1.0)]
    assert two_level_intervals([design(1, 1, 3).levels(Statistic.mean(np.arange(3.0)))]) == [None]
