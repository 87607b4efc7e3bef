from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from nextword.evaluation.metrics import UndefinedError
from nextword.evaluation.metrics.diversity import self_bleu
from nextword.evaluation.metrics.ngrams import TokenTexts
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

TEXTS = st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=2, max_size=7)


def by_nltk(texts: list[list[int]], n: int) -> list[float]:
    smoothing = SmoothingFunction().method1
    return [
        sentence_bleu(texts[:i] + texts[i + 1 :], text, weights=(1 / n,) * n, smoothing_function=smoothing)
        for i, text in enumerate(texts)
    ]


def agrees(texts: list[list[int]], orders: tuple[int, ...] = (1, 2, 3, 4)) -> None:
    for n, row in zip(orders, self_bleu(texts, orders), strict=True):
        np.testing.assert_allclose(row, by_nltk(texts, n), rtol=0, atol=1e-12)


@given(TEXTS)
@example([[1], [1]])
@example([[], []])
@example([[], [1, 2, 3]])
@example([[1, 2], [3, 4]])  # nothing in common
@example([[1, 1, 1], [1, 1, 1], [1]])  # two owners of the largest count
@example([[1, 1, 1, 1], [1, 1], [1, 1]])  # one owner, two with the second largest
@example([[1, 2, 3, 4], [1, 2], [1, 2, 3, 4, 5, 6]])  # both neighbours as near: the shorter counts, no penalty
@example([[1, 2, 3], [1, 2, 3, 4, 5, 6, 7], [1] * 20])  # every length once
@example([[1, 2, 3, 4, 5]] * 4)
def test_equal_to_nltk(texts: list[list[int]]) -> None:
    agrees(texts)


def test_equal_to_nltk_on_longer_texts_and_longer_ngrams() -> None:
    rng = np.random.default_rng(0)
    texts = [np.minimum(rng.zipf(1.3, rng.integers(0, 60)), 40).tolist() for _ in range(40)]
    agrees([*texts, texts[0], texts[1] + texts[1], texts[2][:1]], orders=(1, 3, 6))


def test_by_hand() -> None:
    # "1 1 2" against "1 2 2 2": tokens 1 (of 2) and 2 match: 2/3; of 11 12 only 12: 1/2; 3 < 4 tokens: exp(1 - 4/3).
    # "1 2 2 2" against "1 1 2": 1 and one of three 2 match: 2/4; of 12 22 22 only 12: 1/3; longer: no penalty.
    rows = self_bleu([[1, 1, 2], [1, 2, 2, 2]], n=[1, 2])
    np.testing.assert_allclose(rows[0], [np.exp(-1 / 3) * 2 / 3, 1 / 2])
    np.testing.assert_allclose(rows[1], [np.exp(-1 / 3) * np.sqrt(2 / 3 * 1 / 2), np.sqrt(1 / 2 * 1 / 3)])


@pytest.mark.slow
@given(TEXTS, st.permutations(range(6)), st.randoms(use_true_random=False))
def test_order_of_texts_and_names_of_tokens_do_not_matter(texts: list[list[int]], renamed: list[int], random) -> None:
    order = list(range(len(texts)))
    random.shuffle(order)
    shuffled = [[renamed[token] for token in texts[i]] for i in order]
    np.testing.assert_allclose(self_bleu(shuffled), self_bleu(texts)[:, order], rtol=0, atol=1e-14)


@given(TEXTS)
def test_range_and_a_copy_of_each_makes_it_one(texts: list[list[int]]) -> None:
    found = self_bleu(texts, [1, 2])
    assert (found >= 0).all()
    assert (found <= 1 + 1e-15).all()
    long_enough = [text for text in texts if len(text) >= 2]
    if long_enough:
        np.testing.assert_allclose(self_bleu(long_enough * 2, [1, 2]), 1.0)


@given(TEXTS, st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_lengths_together_are_lengths_alone(texts: list[list[int]], orders: list[int]) -> None:
    together = self_bleu(TokenTexts.of(texts), orders)
    assert together.tolist() == [self_bleu(texts, [n])[0].tolist() for n in orders]


def test_metric_is_the_mean_over_texts() -> None:
    texts = [[1, 2, 3], [1, 2, 4], [], [9]]
    scores = measured("self-bleu:2,1", [{"token_ids": text} for text in texts], Vocabulary())
    assert list(scores) == ["self-bleu-2", "self-bleu-1"]
    for n in (1, 2):
        score = scores[f"self-bleu-{n}"]
        assert (score.value, score.n) == (pytest.approx(np.mean(by_nltk(texts, n))), 4)
        assert score.statistic is not None
        np.testing.assert_allclose(score.statistic.parts, np.transpose([by_nltk(texts, n), [1] * 4]))
        assert "0.1" in score.measure.unit


def test_default_lengths_and_texts_end_at_the_first_special_token() -> None:
    padded = [{"token_ids": [0, 1, 2, 0, 0]}, {"token_ids": [1, 2, 3, 0, 5]}]
    bare = [{"token_ids": [1, 2]}, {"token_ids": [1, 2, 3]}]
    found = values("self-bleu", padded, Vocabulary(special=[0]))
    assert found == values("self-bleu", bare, Vocabulary())
    assert list(found) == ["self-bleu-1", "self-bleu-2", "self-bleu-3"]


def test_human_row() -> None:
    samples = [{"text": text, "references": ["the same words"]} for text in ("one", "two")]
    assert values("self-bleu:1", samples) == {"self-bleu-1": 0.0}
    assert values("self-bleu:1", samples, human=True) == {"self-bleu-1": 1.0}


def test_korean() -> None:
    # 정말 재미있는 영화 , 정말 좋았다 ! | 다시 보고 싶다 . 다시 보고 싶다 . | 별로였다: nothing in common.
    texts = [{"text": text} for text in KOREAN]
    assert values("self-bleu:1", texts) == {"self-bleu-1": 0.0}
    # With "정말 좋았다" the first has 2 of 7 (정말 twice, but once there), the fourth all of 2, exp(1 - 1/2) being for
    # longer neighbours only: its nearest length is 1.
    more = [*texts, {"text": "정말 좋았다"}]
    assert values("self-bleu:1", more) == {"self-bleu-1": pytest.approx((2 / 7 * np.exp(1 - 8 / 7) + 1) / 4)}


def test_korean_reviews() -> None:
    reviews = korean_reviews(60)
    found = values("self-bleu:2", [{"text": text} for text in reviews])
    numbers: dict[str, int] = {}
    texts = [[numbers.setdefault(word, len(numbers)) for word in _words(text)] for text in reviews]
    assert found["self-bleu-2"] == pytest.approx(np.mean(by_nltk(texts, 2)), abs=1e-12)


def _words(text: str) -> list[str]:
    from nextword.evaluation.metrics.tokens import split

    return split(text)


def test_nothing_to_compare() -> None:
    with pytest.raises(UndefinedError, match=r"two texts.*\(1 given"):
        measured("self-bleu", [{"text": "alone"}])
    with pytest.raises(UndefinedError, match=r"two texts.*\(0 given"):
        measured("self-bleu", [])
    with pytest.raises(UndefinedError, match="no text has a token"):
        measured("self-bleu", [{"text": ""}, {"text": " "}])


def test_one_token_texts() -> None:
    # No bigram: 0.1 / 1 each, as in nltk.
    assert values("self-bleu:2", [{"text": "a"}, {"text": "a"}]) == {"self-bleu-2": pytest.approx(np.sqrt(0.1))}


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match=r"lengths of 1 or more \(1 texts"):
        self_bleu([[1]])
    with pytest.raises(ValueError, match=r"n \[0\]"):
        self_bleu([[1], [2]], [0])
    with pytest.raises(ValueError, match=r"self-bleu\.n\.0:.*\(0 given"):
        measured({"metric": "self-bleu", "n": [0]}, [])
    with pytest.raises(ValueError, match="of length 1 or more"):
        measured({"metric": "self-bleu", "n": []}, [])
    with pytest.raises(ValueError, match="whole numbers of 1 or more"):
        measured("self-bleu:two", [])
