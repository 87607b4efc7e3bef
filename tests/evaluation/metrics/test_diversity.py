from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import UndefinedError
from nextword.evaluation.metrics.distinct import distinct
from nextword.evaluation.metrics.diversity import diversity_mean, diversity_product
from nextword.evaluation.metrics.statistics import bootstrap_values
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

TEXTS = st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=6)
LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def grams(text: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(text[start : start + n]) for start in range(len(text) - n + 1)]


def product_by_sets(texts: list[list[int]], n: list[int]) -> float:
    product = 1.0
    for one in n:
        total = sum(len(grams(text, one)) for text in texts)
        if not total:
            return math.nan
        rep = 1 - sum(len(set(grams(text, one))) for text in texts) / total
        product *= 1 - rep
    return product


@given(TEXTS, LENGTHS)
def test_mean_against_distinct(texts: list[list[int]], n: list[int]) -> None:
    np.testing.assert_allclose(diversity_mean(texts, n), np.mean([distinct(texts, one) for one in n], axis=0))


@given(TEXTS, LENGTHS)
def test_product_against_sets(texts: list[list[int]], n: list[int]) -> None:
    np.testing.assert_allclose(diversity_product(texts, n), product_by_sets(texts, n), rtol=1e-13)


def test_by_hand() -> None:
    # 1 2 1 2 1 2: 2 of 6, 2 of 5, 2 of 4, 2 of 3 are different; 3 4 5 6 7: all of 5, 4, 3, 2.
    texts = [[1, 2, 1, 2, 1, 2], [3, 4, 5, 6, 7]]
    np.testing.assert_allclose(diversity_mean(texts), [(2 / 6 + 2 / 5 + 2 / 4 + 2 / 3) / 4, 1])
    assert diversity_product(texts) == pytest.approx((2 + 4) / (5 + 4) * (2 + 3) / (4 + 3) * (2 + 2) / (3 + 2))


def test_last_ngram_counts_and_nothing_is_rounded() -> None:
    # The repeated bigram is the last one: a counter that stops before it finds no repetition at all.
    text = [1, 2, 3, 4, 5, 6, 7, 1, 2]
    assert diversity_product([text], [2]) == 7 / 8
    assert diversity_product([text[:-1]], [2]) == 1
    assert diversity_product([[1, 1, 1, 1]], [2]) == 1 / 3  # and not 0.3333


@given(TEXTS, st.permutations(range(5)))
def test_range_order_and_names(texts: list[list[int]], renamed: list[int]) -> None:
    other = [[renamed[token] for token in text] for text in texts[::-1]]
    mean, product = diversity_mean(texts), diversity_product(texts)
    assert ((mean > 0) & (mean <= 1) | np.isnan(mean)).all()
    assert 0 < product <= 1 or math.isnan(product)
    np.testing.assert_array_equal(diversity_mean(other)[::-1], mean)
    np.testing.assert_array_equal(diversity_product(other), product)


def test_scores_and_their_parts() -> None:
    texts = [[1, 2, 1, 2, 1, 2], [3, 4, 5, 6, 7], [8, 8], []]
    scores = measured("diversity", [{"token_ids": text} for text in texts], Vocabulary())
    mean, product = scores["diversity-mean"], scores["diversity-product"]
    assert (mean.value, mean.n) == (pytest.approx(np.mean(diversity_mean(texts[:2]))), 2)
    assert (product.value, product.n) == (pytest.approx(diversity_product(texts)), 3)  # 8 8 has a bigram
    assert mean.statistic is not None
    assert product.statistic is not None
    assert mean.statistic.parts.shape[0] == product.statistic.parts.shape[0] == 4
    drawn = bootstrap_values([product.statistic], resamples=200)[0]
    assert np.nanmin(drawn) >= 0
    assert np.nanmax(drawn) <= 1
    assert np.nanstd(drawn) > 0


def test_product_of_a_drawn_sample_is_that_of_its_texts() -> None:
    texts = [[1, 2, 1, 2, 1, 2], [3, 4, 5, 6, 7], [8, 8, 8, 8]]
    statistic = measured("diversity", [{"token_ids": text} for text in texts], Vocabulary())[
        "diversity-product"
    ].statistic
    assert statistic is not None
    drawn = statistic.combine(np.array([2, 0, 1]) @ statistic.parts)
    assert float(drawn) == pytest.approx(diversity_product([texts[0], texts[0], texts[2]]))


def test_settings() -> None:
    samples = [{"token_ids": [1, 1, 2]}]
    found = measured({"metric": "diversity", "mean": [1], "product": [1, 2]}, samples, Vocabulary())
    assert {key: score.value for key, score in found.items()} == {
        "diversity-mean": pytest.approx(2 / 3),
        "diversity-product": pytest.approx(2 / 3),
    }
    assert "n = 1, 2;" in found["diversity-product"].measure.unit
    # Only what the texts are long enough for: the mean of the default needs 4-grams.
    only = values({"metric": "diversity", "product": [2, 3]}, samples, Vocabulary())
    assert only == {"diversity-product": 1.0}


def test_special_tokens_and_human_row() -> None:
    sample = {"token_ids": [0, 1, 2, 3, 4, 0, 0, 0], "reference_token_ids": [[1, 1, 1, 1]]}
    assert set(values("diversity", [sample], Vocabulary(special=[0])).values()) == {1.0}
    human = values("diversity", [sample], Vocabulary(special=[0]), human=True)
    assert human["diversity-product"] == pytest.approx(1 / 3 * 1 / 2 * 1)


def test_korean() -> None:
    # 다시 보고 싶다 . twice: 4 of 8, 4 of 7, 4 of 6, 4 of 5.
    found = values("diversity", [{"text": KOREAN[1]}])
    assert found["diversity-mean"] == pytest.approx((4 / 8 + 4 / 7 + 4 / 6 + 4 / 5) / 4)
    assert found["diversity-product"] == pytest.approx(4 / 7 * 4 / 6 * 4 / 5)


def test_korean_reviews() -> None:
    found = values("diversity", [{"text": text} for text in korean_reviews(200)])
    assert 0.8 < found["diversity-mean"] < 1
    assert 0.8 < found["diversity-product"] < 1


def test_nothing_to_measure_and_bad_settings() -> None:
    for texts in ([], [""], ["one two three"]):
        with pytest.raises(UndefinedError, match="no text has 4 tokens"):
            measured("diversity", [{"text": text} for text in texts])
    with pytest.raises(ValueError, match=r"lengths must be 1 or more \(\[\] given"):
        diversity_mean([[1]], [])
    with pytest.raises(ValueError, match=r"diversity\.product\.0:.*\(0 given"):
        measured({"metric": "diversity", "product": [0]}, [])
    with pytest.raises(ValueError, match="takes no arguments"):
        measured("diversity:2", [])
