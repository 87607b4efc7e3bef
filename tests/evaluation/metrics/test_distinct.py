from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import UndefinedError
from nextword.evaluation.metrics.distinct import distinct
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

TEXTS = st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=6)


def by_sets(text: list[int], n: int) -> float:
    grams = [tuple(text[start : start + n]) for start in range(len(text) - n + 1)]
    return len(set(grams)) / len(grams) if grams else math.nan


@given(TEXTS, st.integers(1, 5))
def test_against_sets(texts: list[list[int]], n: int) -> None:
    np.testing.assert_array_equal(distinct(texts, n), [by_sets(text, n) for text in texts])


@given(TEXTS, st.permutations(range(5)))
def test_names_of_tokens_do_not_matter_and_range(texts: list[list[int]], renamed: list[int]) -> None:
    found = distinct(texts, 2)
    np.testing.assert_array_equal(found, distinct([[renamed[token] for token in text] for text in texts], 2))
    assert ((found > 0) & (found <= 1) | np.isnan(found)).all()


@given(st.lists(st.integers(0, 30), min_size=3, max_size=12, unique=True), st.integers(1, 3))
def test_other_texts_do_not_matter_and_different_tokens_make_it_one(text: list[int], n: int) -> None:
    assert distinct([text, text, [1, 1, 1, 1]], n)[:2].tolist() == [1.0, 1.0]


def test_mean_over_texts_that_have_ngrams() -> None:
    # 1 2 1 2: of 12 21 12 two differ; 3 4 5: both; one token has no bigram, but counts for n = 1, where only 3 4 5 and
    # it are all different.
    samples = [{"token_ids": ids} for ids in ([1, 2, 1, 2], [3, 4, 5], [6], [])]
    scores = measured("distinct:1,2", samples, Vocabulary())
    assert (scores["distinct-1"].value, scores["distinct-1"].n) == (pytest.approx((1 / 2 + 1 + 1) / 3), 3)
    assert (scores["distinct-2"].value, scores["distinct-2"].n) == (pytest.approx((2 / 3 + 1) / 2), 2)
    assert scores["distinct-2"].statistic is not None
    assert scores["distinct-2"].statistic.parts.tolist() == [[pytest.approx(2 / 3), 1], [1, 1], [0, 0], [0, 0]]


def test_what_seq_rep_leaves() -> None:
    samples = [{"token_ids": ids} for ids in ([1, 1, 2, 1, 1, 2], [3, 4, 3, 4, 0, 3], [5, 0, 0])]
    unit = Vocabulary(special=[0])
    found = values("distinct:1,2", samples, unit)
    repeated = values("seq-rep:1,2", samples, unit)
    assert found["distinct-1"] == pytest.approx(1 - repeated["seq-rep-1"])
    assert found["distinct-2"] == pytest.approx(1 - repeated["seq-rep-2"])


def test_human_row() -> None:
    samples = [{"text": "no no no no", "reference": "yes and no"}]
    assert values("distinct:1", samples) == {"distinct-1": 0.25}
    assert values("distinct:1", samples, human=True) == {"distinct-1": 1.0}


def test_korean() -> None:
    # 정말 재미있는 영화 , 정말 좋았다 !: 6 of 7. 다시 보고 싶다 . twice: 4 of 8. One word: 1.
    found = values("distinct:1", [{"text": text} for text in KOREAN])
    assert found == {"distinct-1": pytest.approx((6 / 7 + 1 / 2 + 1) / 3)}


def test_korean_reviews() -> None:
    found = list(values("distinct", [{"text": text} for text in korean_reviews(200)]).values())
    assert 0.8 < found[0] < found[1] < found[2] <= 1


def test_lengths_without_ngrams_have_no_value() -> None:
    assert values("distinct", [{"text": "word"}, {"text": ""}]) == {"distinct-1": 1.0}
    with pytest.raises(UndefinedError, match="Distinct-n: no text has 2 tokens"):
        measured("distinct:3,2", [{"text": "word"}, {"text": ""}])
    with pytest.raises(UndefinedError, match="Distinct-n: no text has 1 tokens"):
        measured("distinct", [])


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match=r"least 1 \(0"):
        distinct([[1]], 0)
    with pytest.raises(ValueError, match=r"distinct\.n\.1:.*\(-2 given"):
        measured({"metric": "distinct", "n": [1, -2]}, [])
    with pytest.raises(ValueError, match="whole numbers of 1 or more"):
        measured("distinct:0", [])
