from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from nextword.evaluation.metrics.ms_jaccard import ms_jaccard
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

TEXTS = st.lists(st.lists(st.integers(0, 4), max_size=8), min_size=1, max_size=5)


def by_counting(first: list[list[int]], second: list[list[int]], n: int) -> float:
    """The definition with dictionaries and exact fractions."""
    product = Fraction(1)
    for m in range(1, n + 1):
        a, b = (
            {gram: Fraction(count, len(texts)) for gram, count in _grams(texts, m).items()} for texts in (first, second)
        )
        grams = a.keys() | b.keys()
        if not grams:
            return math.nan
        lower = sum(min(a.get(gram, Fraction(0)), b.get(gram, Fraction(0))) for gram in grams)
        product *= lower / sum(max(a.get(gram, Fraction(0)), b.get(gram, Fraction(0))) for gram in grams)
    return float(product) ** (1 / n)


def _grams(texts: list[list[int]], n: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(text[i : i + n]) for text in texts for i in range(len(text) - n + 1))


@given(TEXTS, TEXTS)
def test_against_counting(first: list[list[int]], second: list[list[int]]) -> None:
    expected = [by_counting(first, second, n) for n in (1, 2, 3, 4)]
    np.testing.assert_allclose(ms_jaccard(first, second, [1, 2, 3, 4]), expected, rtol=0, atol=1e-14)


def test_by_hand() -> None:
    # Counts per text: 1 has 1 and 1, 2 has 1 and 1, 3 has 1 and 1/2, 4 has 0 and 1/2: J_1 = 2.5 / 3.5.
    # 12 has 1 and 1, 23 has 1 and 1/2, 24 has 0 and 1/2: J_2 = 1.5 / 2.5.
    found = ms_jaccard([[1, 2, 3]], [[1, 2, 4], [1, 2, 3]], [1, 2])
    np.testing.assert_allclose(found, [5 / 7, math.sqrt(5 / 7 * 3 / 5)])


@given(TEXTS, TEXTS, st.permutations(range(5)))
def test_symmetric_and_names_of_tokens_do_not_matter(
    first: list[list[int]], second: list[list[int]], renamed: list[int]
) -> None:
    found = ms_jaccard(first, second)
    np.testing.assert_array_equal(found, ms_jaccard(second, first))
    other = [[[renamed[token] for token in text] for text in side] for side in (first, second)]
    np.testing.assert_array_equal(found, ms_jaccard(*other))


@given(TEXTS, TEXTS)
def test_range_and_copies_change_nothing(first: list[list[int]], second: list[list[int]]) -> None:
    found = ms_jaccard(first, second)
    assert ((found >= 0) & (found <= 1) | np.isnan(found)).all()
    np.testing.assert_allclose(ms_jaccard(first * 3, second), found, rtol=0, atol=1e-14)
    itself = ms_jaccard(first, first[::-1])
    assert ((itself == 1) | np.isnan(itself)).all()


def test_first_reference_is_compared() -> None:
    samples = [{"token_ids": [1, 2], "reference_token_ids": [[1, 2], [8, 9]]}, {"token_ids": [3], "reference": "x"}]
    score = measured("ms-jaccard:2", samples[:1], Vocabulary())["ms-jaccard-2"]
    assert (score.value, score.n, score.statistic) == (1.0, 1, None)
    assert values("ms-jaccard:1", samples[:1], Vocabulary(), human=True) == {"ms-jaccard-1": 0.0}


def test_human_row_with_one_reference_is_perfect() -> None:
    samples = [{"text": "a b c", "reference": "a b d e"}, {"text": "a", "reference": "b c"}]
    assert set(values("ms-jaccard", samples, human=True).values()) == {1.0}
    assert 0 < values("ms-jaccard", samples)["ms-jaccard-1"] < 1


def test_special_tokens_are_no_text() -> None:
    samples = [{"token_ids": [0, 1, 2, 0, 0], "reference_token_ids": [[1, 2, 0, 7]]}]
    assert set(values("ms-jaccard:1,2", samples, Vocabulary(special=[0])).values()) == {1.0}
    assert values("ms-jaccard:1", samples, Vocabulary())["ms-jaccard-1"] < 1


def test_korean() -> None:
    # 정말 재미있는 영화 , 정말 좋았다 ! against 정말 좋았다 !: 3 tokens of 7.
    samples = [{"text": KOREAN[0], "reference": "정말 좋았다!"}]
    assert values("ms-jaccard:1", samples) == {"ms-jaccard-1": pytest.approx(3 / 7)}


def test_korean_reviews() -> None:
    reviews = korean_reviews(200)
    samples = [{"text": a, "reference": b} for a, b in zip(reviews[:100], reviews[100:], strict=True)]
    found = list(values("ms-jaccard", samples).values())
    assert 1 > found[0] > found[1] > found[2] > 0


def test_lengths_without_ngrams_have_no_value() -> None:
    assert list(values("ms-jaccard", [{"text": "a b", "reference": "a"}])) == ["ms-jaccard-1", "ms-jaccard-2"]
    # One side without text: nothing in common.
    assert values("ms-jaccard:1", [{"text": "", "reference": "a"}]) == {"ms-jaccard-1": 0.0}
    with pytest.raises(UndefinedError, match=r"MS-Jaccard:.*reference"):
        measured("ms-jaccard:2,3", [{"text": "a", "reference": "b"}])
    with pytest.raises(UndefinedError, match="MS-Jaccard: no text"):
        measured("ms-jaccard", [])


def test_errors() -> None:
    with pytest.raises(MissingFieldError, match="line 1: no 'references', which"):
        measured("ms-jaccard", [{"text": "a"}])
    with pytest.raises(MissingFieldError, match="line 1: 'reference_token_ids' must have a reference"):
        measured("ms-jaccard", [{"text": "a", "reference_token_ids": []}])
    with pytest.raises(ValueError, match="references"):
        ms_jaccard([], [[1]])
    with pytest.raises(ValueError, match=r"n \[2, 0\]"):
        ms_jaccard([[1]], [[1]], [2, 0])
    with pytest.raises(ValueError, match=r"ms-jaccard\.n\.0:.*\(0 given"):
        measured({"metric": "ms-jaccard", "n": [0]}, [])
