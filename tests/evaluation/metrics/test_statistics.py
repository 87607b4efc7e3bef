from __future__ import annotations

import numpy as np
import pytest

from nextword.evaluation.metrics import Score, UndefinedError
from nextword.evaluation.metrics.statistics import Statistic
from nextword.results.records import Measure

MEASURE = Measure(title="x", group="g", unit="u", goal=None, meaning="m")


def test_a_ratio_divides_sums_once() -> None:
    sums, counts = np.array([1.0, 8.0, 0.0]), np.array([2.0, 10.0, 0.0])
    assert Statistic.ratio(sums, counts).value == 0.75  # 9 / 12, not the mean of 0.5 and 0.8
    assert Statistic.ratio(sums, counts, np.exp).value == pytest.approx(np.exp(0.75), rel=1e-15)


def test_a_mean_leaves_out_samples_without_a_value() -> None:
    statistic = Statistic.mean(np.array([1.0, np.nan, 4.0]))
    assert statistic.value == 2.5
    assert statistic.parts.tolist() == [[1, 1], [0, 0], [4, 1]]


def test_no_value_at_all_is_undefined() -> None:
    with pytest.raises(UndefinedError, match="x: no sample has a value"):
        Score.of(MEASURE, Statistic.mean(np.array([np.nan])), 0)
    with pytest.raises(UndefinedError):
        Score.of(MEASURE, Statistic.mean(np.array([])), 0)
