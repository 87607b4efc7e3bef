from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from nextword.evaluation.metrics.repetition import seq_rep
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

TEXTS = st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=6)


def by_counting(text: list[int], n: int) -> float:
    """Every n-gram beyond its first occurrence is a repetition."""
    counted = Counter(tuple(text[start : start + n]) for start in range(len(text) - n + 1))
    return sum(count - 1 for count in counted.values()) / counted.total() if counted else math.nan


@given(TEXTS, st.integers(1, 5))
def test_against_counting(texts: list[list[int]], n: int) -> None:
    np.testing.assert_allclose(seq_rep(texts, n), [by_counting(text, n) for text in texts], atol=1e-15)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.permutations(range(5)))
def test_names_of_tokens_do_not_matter_and_it_stays_below_one(text: list[int], renamed: list[int]) -> None:
    found = seq_rep([text, [renamed[token] for token in text]], 2)
    assert found[0] == found[1] or len(text) < 2
    assert 0 <= seq_rep([text], 1)[0] < 1


def test_mean_over_completions_that_have_ngrams() -> None:
    # 1 2 1 2 1 has bigrams 12 21 12 21: 2 of 4 repeat. 3 4 5 has none that repeats. One token has no bigram.
    samples = [{"token_ids": ids} for ids in ([1, 2, 1, 2, 1], [3, 4, 5], [6], [])]
    score = measured("seq-rep:2", samples, Vocabulary())["seq-rep-2"]
    assert (score.value, score.n) == (0.25, 2)
    assert score.statistic is not None
    assert len(score.statistic.parts) == 4


def test_a_uniform_completion_repeats_all_but_one() -> None:
    found = values("seq-rep", [{"token_ids": [7] * 100}], Vocabulary())
    assert found == {"seq-rep-1": pytest.approx(0.99), "seq-rep-4": pytest.approx(96 / 97)}


def test_cut_at_the_first_pad_and_the_prompt_is_not_read() -> None:
    sample = {"prompt_token_ids": [5, 5, 5], "token_ids": [5, 6, 0, 0, 5, 0, 0]}
    assert values("seq-rep:1", [sample], Vocabulary(special=[0])) == {"seq-rep-1": 0.0}
    assert values("seq-rep:1", [sample], Vocabulary()) == {"seq-rep-1": pytest.approx(4 / 7)}


def test_words_leave_out_texts_of_fewer_than_four() -> None:
    # so so so so: 3 of 4 repeat; "no no no" is left out; the marks of "a, a, a" make it 5 long: a , a , a repeats 3.
    texts = [{"text": text, "token_ids": [1, 2]} for text in ("so so so so", "no no no", "a, a, a")]
    score = measured({"metric": "seq-rep", "n": (1,), "words": True}, texts, Vocabulary())["seq-rep-1"]
    assert (score.value, score.n) == (pytest.approx((3 / 4 + 3 / 5) / 2), 2)
    assert "words" in score.measure.unit
    with pytest.raises(MissingFieldError, match="seq-rep over"):
        measured({"metric": "seq-rep", "words": True}, [{"token_ids": [1]}])


def test_korean() -> None:
    # 정말 재미있는 영화 , 정말 좋았다 ! : 1 of 7. 다시 보고 싶다 . twice: 4 of 8. One word: 0.
    assert values("seq-rep:1", [{"text": text} for text in KOREAN])["seq-rep-1"] == pytest.approx((1 / 7 + 1 / 2) / 3)


def test_korean_reviews() -> None:
    reviews = korean_reviews(200)
    words = measured({"metric": "seq-rep", "words": True}, [{"text": text} for text in reviews])
    tokens = measured("seq-rep", [{"text": text} for text in reviews])
    assert 0 < words["seq-rep-4"].value < tokens["seq-rep-1"].value < 0.2
    assert words["seq-rep-4"].value == tokens["seq-rep-4"].value  # only texts of four words have 4-grams
    assert words["seq-rep-1"].n < tokens["seq-rep-1"].n


def test_nothing_to_measure() -> None:
    with pytest.raises(UndefinedError, match="seq-rep-4: at least one text must have"):
        measured("seq-rep:4", [{"text": "too short"}, {"text": ""}])
    with pytest.raises(ValueError, match="whole numbers of 1 or more"):
        measured("seq-rep:0", [])
    for n, message in (((), "of length 1 or more"), ((1, 0), "must be at least 1")):
        with pytest.raises(ValueError, match=message):
            measured({"metric": "seq-rep", "n": n}, [])


def test_a_length_that_no_text_has_is_left_out() -> None:
    assert values("seq-rep:1,4", [{"text": "so so so"}, {"text": "a"}]) == {"seq-rep-1": pytest.approx(1 / 3)}
