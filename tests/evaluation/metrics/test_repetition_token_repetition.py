from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from nextword.evaluation.metrics.repetition import steps_back
from tests.helpers.measuring import measured, values

IDS = st.integers(0, 5)
PAIRS = st.lists(st.tuples(IDS, IDS), max_size=30)


def looked_up(targets: list[int], predicted: list[int], window: int) -> list[bool]:
    return [token in targets[max(0, t - window) : t] for t, token in enumerate(predicted)]


@given(PAIRS, st.integers(1, 40))
def test_against_looking_into_each_window(pairs: list[tuple[int, int]], window: int) -> None:
    targets, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    steps = steps_back(targets, predicted)
    assert ((steps > 0) & (steps <= window)).tolist() == looked_up(targets, predicted, window)


@given(st.lists(PAIRS.filter(bool), min_size=1, max_size=4), st.integers(1, 12))
def test_shares_over_all_tokens_of_blocks(blocks: list[list[tuple[int, int]]], window: int) -> None:
    samples = [
        {"target_token_ids": [y for y, _ in block], "predicted_token_ids": [a for _, a in block]} for block in blocks
    ]
    repeated, wrong, tokens = 0, 0, 0
    for block, sample in zip(blocks, samples, strict=True):
        inside = looked_up(sample["target_token_ids"], sample["predicted_token_ids"], window)
        repeated += sum(inside)
        wrong += sum(there and y != a for there, (y, a) in zip(inside, block, strict=True))
        tokens += len(block)
    scores = measured(f"token-repetition:{window}", samples)
    assert scores[f"rep/{window}"].value == pytest.approx(repeated / tokens)
    assert scores[f"wrep/{window}"].value == pytest.approx(wrong / tokens)
    assert scores[f"rep/{window}"].n == tokens


def test_by_hand_and_each_sample_begins_anew() -> None:
    # y 1 2 3 1 | 1;  a 1 1 1 1 | 1.  Before them: (), 1, 1 2, 1 2 3 | ().  In the window of 3: no yes yes yes | no.
    # Wrong are those at 2 and 3. In the window of 1: no, yes, no (2 is last), no (3 is last) | no.
    samples = [
        {"target_token_ids": [1, 2, 3, 1], "predicted_token_ids": [1, 1, 1, 1]},
        {"target_token_ids": [1], "predicted_token_ids": [1]},
    ]
    found = values("token-repetition:1,3", samples)
    assert found == {"rep/1": 1 / 5, "rep/3": 3 / 5, "wrep/1": 1 / 5, "wrep/3": 2 / 5}


def test_human_row_is_the_targets_themselves() -> None:
    sample = {"target_token_ids": [1, 2, 1, 3, 3], "predicted_token_ids": [9, 9, 9, 9, 9]}
    assert values("token-repetition:2", [sample], human=True) == {"rep/2": 2 / 5, "wrep/2": 0.0}
    assert values("token-repetition:2", [sample]) == {"rep/2": 0.0, "wrep/2": 0.0}


@given(PAIRS.filter(bool), st.permutations(range(6)))
def test_names_of_tokens_do_not_matter_and_longer_windows_hold_more(
    pairs: list[tuple[int, int]], renamed: list[int]
) -> None:
    targets, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = values("token-repetition", [{"target_token_ids": targets, "predicted_token_ids": predicted}])
    other = {"target_token_ids": [renamed[y] for y in targets], "predicted_token_ids": [renamed[a] for a in predicted]}
    assert values("token-repetition", [other]) == found
    shares = [found[f"rep/{window}"] for window in (16, 32, 128, 512)]
    assert shares == sorted(shares)
    assert all(found[f"wrep/{window}"] <= found[f"rep/{window}"] for window in (16, 32, 128, 512))


def test_huge_ids_and_empty_blocks() -> None:
    assert steps_back([2**62, 5], [5, 2**62]).tolist() == [0, 1]
    assert steps_back([], []).tolist() == []
    sample = {"target_token_ids": [4, 4], "predicted_token_ids": [4, 4]}
    empty = {"target_token_ids": [], "predicted_token_ids": []}
    assert values("token-repetition:1", [empty, sample]) == {"rep/1": 0.5, "wrep/1": 0.0}
    with pytest.raises(UndefinedError, match="rep/1: no sample"):
        measured("token-repetition:1", [empty])
    with pytest.raises(UndefinedError, match="rep/16: no sample"):
        measured("token-repetition", [])


def test_long_blocks_take_no_square() -> None:
    rng = np.random.default_rng(0)
    targets, predicted = rng.integers(0, 50_000, size=(2, 500_000))  # a square would be 250 GB of truth values
    start = time.perf_counter()
    steps = steps_back(targets, predicted)
    assert time.perf_counter() - start < 3
    for t in (0, 1, 99_999, 499_999):
        earlier = np.flatnonzero(targets[:t] == predicted[t])
        assert steps[t] == (t - earlier[-1] if len(earlier) else 0)


def test_errors() -> None:
    with pytest.raises(MissingFieldError, match="'predicted_token_ids'"):
        measured("token-repetition", [{"target_token_ids": [1]}])
    with pytest.raises(ValueError, match=r"numbers of 1 or more \('0'"):
        measured("token-repetition:0", [])
    with pytest.raises(ValueError, match="at least 1"):
        measured({"metric": "token-repetition", "windows": (0,)}, [])
    with pytest.raises(ValueError, match="2 targets, 1 predictions"):
        steps_back([1, 2], [1])
