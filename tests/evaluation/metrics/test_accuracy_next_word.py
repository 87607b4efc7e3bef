from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from nextword.evaluation.metrics.accuracy import among_first
from tests.helpers.measuring import measured, values

RANKS = st.lists(st.lists(st.integers(0, 20), max_size=8), min_size=1, max_size=5).filter(any)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=12, max_size=12), min_size=1, max_size=10), st.integers(1, 12))
def test_against_scores(rows: list[list[int]], k: int) -> None:
    """The target is token 0; a tie with it does not push it down."""
    ranks = [sum(score > row[0] for score in row) for row in rows]
    # Sorted with the target first among its equals, it stands among the first k.
    expected = [0 in sorted(range(12), key=lambda token: (-row[token], token))[:k] for row in rows]
    assert among_first(ranks, k).tolist() == expected


@given(RANKS)
def test_shares_of_all_tokens(blocks: list[list[int]]) -> None:
    flat = np.concatenate([np.array(block, dtype=int) for block in blocks])
    scores = measured("accuracy", [{"target_ranks": block} for block in blocks])
    assert scores["accuracy"].value == pytest.approx((flat == 0).mean())
    assert scores["hits@10"].value == pytest.approx((flat < 10).mean())
    assert scores["accuracy"].value <= scores["hits@10"].value
    assert scores["accuracy"].n == flat.size


def test_predictions_serve_where_no_ranks_are_given() -> None:
    sample = {"target_token_ids": [1, 2, 3, 4], "predicted_token_ids": [1, 2, 9, 9]}
    assert values("accuracy", [sample]) == {"accuracy": 0.5}
    # Ranks go first: the target at place 2 ties with the prediction 9, and counts.
    ranked = {**sample, "target_ranks": [0, 0, 0, 5]}
    assert values({"metric": "accuracy", "k": 5}, [ranked]) == {"accuracy": 0.75, "hits@5": 0.75}
    assert "ties count as correct" in measured("accuracy", [ranked])["accuracy"].measure.meaning


def test_human_row_is_right_by_construction() -> None:
    sample = {"target_token_ids": [1, 2], "predicted_token_ids": [3, 3], "target_ranks": [4, 4]}
    assert values("accuracy", [sample], human=True) == {"accuracy": 1.0}


def test_errors() -> None:
    targets = {"target_token_ids": [1]}
    with pytest.raises(MissingFieldError, match="'predicted_token_ids'"):
        measured("accuracy", [targets])
    with pytest.raises(MissingFieldError, match="'target_ranks'"):
        measured("accuracy", [{**targets, "target_ranks": [0]}, {**targets, "predicted_token_ids": [1]}])
    with pytest.raises(ValueError, match="line 1: target_ranks must be 0 or more"):
        measured("accuracy", [{"target_ranks": [0, -1]}])
    with pytest.raises(UndefinedError, match="accuracy: no sample has a value"):
        measured("accuracy", [{"target_ranks": []}])
    with pytest.raises(ValueError, match="at least 1"):
        measured({"metric": "accuracy", "k": 0}, [])
    with pytest.raises(ValueError, match=r"least 1 \(0"):
        among_first([1], 0)
