from __future__ import annotations

import numpy as np
import pytest

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from nextword.evaluation.metrics.accuracy import acc_at_k, hits_at_k
from tests.helpers.measuring import measured, values


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
    with pytest.raises(ValueError, match=r"least 1 \(0"):
        hits_at_k(np.array([[1]]), np.array([[1, 2]]), 0)
    with pytest.raises(ValueError, match=r"wanted must be of shape \(1, 2\)"):
        hits_at_k(np.array([[1]]), np.array([[1], [2]]), 1)
    with pytest.raises(ValueError, match="no rows"):
        acc_at_k(np.empty((0, 3), int), np.empty((0, 2), int), 2)


def test_samples_give_the_same_as_the_arrays() -> None:
    rng = np.random.default_rng(2)
    ranked = np.array([rng.permutation(30) for _ in range(60)])
    wanted = np.array([rng.permutation(30)[:2] for _ in range(60)])
    samples = [
        {"ranked_token_ids": r, "right_token_ids": w} for r, w in zip(ranked.tolist(), wanted.tolist(), strict=True)
    ]
    scores = measured("acc", samples)
    assert {key: score.value for key, score in scores.items()} == pytest.approx(
        {f"acc@{k}": acc_at_k(ranked, wanted, k) for k in (1, 2, 5, 10, 25)}
    )
    assert {score.n for score in scores.values()} == {60}


def test_samples_by_hand() -> None:
    first = {"ranked_token_ids": [4, 7, 9], "right_token_ids": [7, 4]}
    second = {"ranked_token_ids": [4, -1, -1], "right_token_ids": [4, 8]}
    third = {"ranked_token_ids": [5, 6, 1], "right_token_ids": [1, 6]}
    assert values("acc:1,2,3", [first, second, third]) == pytest.approx(
        {"acc@1": 2 / 3, "acc@2": 1 / 3, "acc@3": 2 / 3}
    )


def test_sample_errors() -> None:
    with pytest.raises(ValueError, match="ranked_token_ids"):
        measured("acc:1,5", [{"ranked_token_ids": [1, 2], "right_token_ids": [1, 2]}])
    for right in ([1], [1, 1], [1, 2, 3]):
        with pytest.raises(ValueError, match="right_token_ids"):
            measured("acc:1", [{"ranked_token_ids": [1], "right_token_ids": right}])
    with pytest.raises(MissingFieldError, match="'right_token_ids'"):
        measured("acc:1", [{"ranked_token_ids": [1]}])
    with pytest.raises(UndefinedError, match="no prompt"):
        measured("acc", [])
    for spec in ("acc:0", "acc:x"):
        with pytest.raises(ValueError, match="whole numbers of 1 or more"):
            measured(spec, [])
    with pytest.raises(ValueError, match="of length 1 or more"):
        measured({"metric": "acc", "k": ()}, [])
