from __future__ import annotations

import numpy as np
import pytest

from nextword.metrics.accuracy import acc_at_k, hits_at_k


def test_by_sets() -> None:
    rng = np.random.default_rng(0)
    ranked = np.array([rng.permutation(12)[:8] for _ in range(200)])
    wanted = np.array([rng.permutation(12)[:2] for _ in range(200)])
    for k in range(2, 9):
        expected = [set(pair) <= set(row[:k]) for row, pair in zip(ranked.tolist(), wanted.tolist(), strict=True)]
        assert hits_at_k(ranked, wanted, k).tolist() == expected
    first = [row[0] in pair for row, pair in zip(ranked.tolist(), wanted.tolist(), strict=True)]
    assert hits_at_k(ranked, wanted, 1).tolist() == first


def test_missing_predictions_never_hit() -> None:
    assert acc_at_k(np.array([[4, -1, -1]]), np.array([[4, 9]]), 3) == 0.0


def test_grows_with_k_and_is_one_over_the_whole_vocabulary() -> None:
    rng = np.random.default_rng(1)
    ranked = np.array([rng.permutation(9) for _ in range(50)])
    wanted = np.array([rng.permutation(9)[:2] for _ in range(50)])
    values = [acc_at_k(ranked, wanted, k) for k in range(2, 10)]
    assert values == sorted(values)
    assert values[-1] == 1.0


def test_errors() -> None:
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        hits_at_k(np.array([[1]]), np.array([[1, 2]]), 0)
    with pytest.raises(ValueError, match=r"wanted must be \(1, 2\)"):
        hits_at_k(np.array([[1]]), np.array([[1], [2]]), 1)
    with pytest.raises(ValueError, match="no rows"):
        acc_at_k(np.empty((0, 3), int), np.empty((0, 2), int), 2)
