from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import bootstrap

from nextword.evaluation.metrics.statistics import bootstrap_ratio, wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 20), (7, 20), (20, 20), (311, 500)])
def test_wilson_against_the_formula(successes: int, n: int) -> None:
    p, z = successes / n, 1.959963984540054
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert wilson(successes, n) == pytest.approx((middle - half, middle + half), abs=1e-9)


def test_wilson_errors() -> None:
    for successes, n in ((3, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="must have 0 <= successes <= n"):
            wilson(successes, n)


def test_bootstrap_against_scipy() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(50, 200, size=60).astype(float)
    sums = counts * rng.normal(3.0, 0.4, size=60)

    def ratio(top: np.ndarray, bottom: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.exp(top.sum(axis=axis) / bottom.sum(axis=axis))

    theirs = bootstrap((sums, counts), ratio, paired=True, method="percentile", n_resamples=5000, rng=1)
    ours = bootstrap_ratio(sums, counts, np.exp, resamples=5000)
    assert ours == pytest.approx(tuple(theirs.confidence_interval), rel=0.02)


def test_bootstrap_covers_the_truth() -> None:
    rng = np.random.default_rng(5)
    inside = 0
    for seed in range(200):
        low, high = bootstrap_ratio(rng.exponential(2.0, 80), np.ones(80), resamples=300, seed=seed)
        inside += low <= 2.0 <= high
    assert 0.88 <= inside / 200 <= 0.99


def test_bootstrap_is_repeatable_and_needs_two_blocks() -> None:
    values = np.array([1.0, 2.0, 4.0])
    assert bootstrap_ratio(values, np.ones(3)) == bootstrap_ratio(values, np.ones(3))
    assert bootstrap_ratio(values[:1], np.ones(1)) is None
    with pytest.raises(ValueError, match="of the same length"):
        bootstrap_ratio(values, np.ones(2))
