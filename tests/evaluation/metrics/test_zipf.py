from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress

from nextword.evaluation.metrics import UndefinedError
from nextword.evaluation.metrics.zipf import zipf_coefficient
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

COUNTS = st.lists(st.integers(1, 1000), min_size=2, max_size=40)


def by_scipy(counts: list[int], ranks: int) -> float:
    frequencies = sorted(counts, reverse=True)[:ranks]
    return -linregress(np.log(np.arange(1, len(frequencies) + 1)), np.log(frequencies)).slope


@given(COUNTS, st.integers(2, 50))
def test_against_linregress(counts: list[int], ranks: int) -> None:
    assert zipf_coefficient(counts, ranks) == pytest.approx(by_scipy(counts, ranks), abs=1e-12)


def test_by_hand() -> None:
    # Two points: log 8 at log 1 and log 2 at log 2, a slope of (log 2 - log 8) / log 2 = -2.
    assert zipf_coefficient([2, 8]) == pytest.approx(2)
    # Exactly proportional to r^-1.5.
    assert zipf_coefficient(np.round(1e12 * np.arange(1, 101) ** -1.5).astype(int)) == pytest.approx(1.5)


@given(COUNTS, st.integers(2, 9), st.randoms(use_true_random=False))
def test_order_and_scale_do_not_matter_and_it_is_not_negative(counts: list[int], factor: int, random) -> None:
    shuffled = [factor * count for count in counts]
    random.shuffle(shuffled)
    found = zipf_coefficient(counts)
    assert found >= 0
    assert zipf_coefficient(shuffled) == pytest.approx(found, abs=1e-12)


def test_counts_of_all_texts_together() -> None:
    # 1 four times, 2 twice, 3 once; the special 0 is no text.
    samples = [{"token_ids": [0, 1, 1, 2, 0]}, {"token_ids": [1, 2, 3, 1]}, {"token_ids": []}]
    score = measured("zipf", samples, Vocabulary(special=[0]))["zipf"]
    assert (score.value, score.n) == (pytest.approx(by_scipy([4, 2, 1], 5000)), 7)
    assert score.statistic is None
    two = measured({"metric": "zipf", "ranks": 2}, samples, Vocabulary(special=[0]))["zipf"]
    assert two.value == pytest.approx(1)
    assert two.measure.unit == "negative slope (log frequency on log rank, ranks up to 2)"


def test_equal_counts_and_human_row() -> None:
    samples = [{"text": "a b c", "reference": "a a b"}]
    assert values("zipf", samples) == {"zipf": 0.0}
    assert values("zipf", samples, human=True) == {"zipf": pytest.approx(1)}


def test_korean() -> None:
    # 정말, 다시, 보고, 싶다 and . twice, the other six once.
    found = values("zipf", [{"text": text} for text in KOREAN])
    assert found == {"zipf": pytest.approx(by_scipy([2] * 5 + [1] * 6, 5000))}


def test_korean_reviews() -> None:
    assert 0.3 < values("zipf", [{"text": text} for text in korean_reviews(500)])["zipf"] < 1.2


def test_no_line() -> None:
    with pytest.raises(UndefinedError, match="different"):
        measured("zipf", [{"text": "a a a"}, {"text": ""}])
    with pytest.raises(UndefinedError, match="must have at least two different tokens"):
        measured("zipf", [])


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match=r"zipf\.ranks:.*\(1 given"):
        measured({"metric": "zipf", "ranks": 1}, [])
    for counts, ranks in [([3], 10), ([3, 2], 1), ([3, 0], 10)]:
        with pytest.raises(ValueError, match="1 or more and at least two ranks"):
            zipf_coefficient(counts, ranks)
