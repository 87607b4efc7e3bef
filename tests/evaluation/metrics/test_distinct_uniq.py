from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

TEXTS = st.lists(st.lists(st.integers(0, 20), max_size=8), min_size=1, max_size=6).filter(any)


@given(TEXTS)
def test_against_the_set_of_all(texts: list[list[int]]) -> None:
    score = measured("uniq-seq", [{"token_ids": text} for text in texts], Vocabulary())["uniq-seq"]
    assert (score.value, score.n) == (len(set().union(*texts)), sum(map(len, texts)))
    predicted = measured("uniq", [{"predicted_token_ids": text} for text in texts])["uniq"]
    assert (predicted.value, predicted.n) == (score.value, score.n)
    assert [one.measure.unit for one in (score, predicted)] == [
        "distinct tokens of all texts",
        "distinct tokens of all predictions",
    ]


@given(TEXTS, st.randoms(use_true_random=False))
def test_order_of_texts_does_not_matter_and_a_second_copy_adds_nothing(texts: list[list[int]], random) -> None:
    samples = [{"token_ids": text} for text in texts]
    shuffled = samples * 2
    random.shuffle(shuffled)
    assert values("uniq-seq", shuffled, Vocabulary()) == values("uniq-seq", samples, Vocabulary())


def test_special_tokens_are_no_text() -> None:
    sample = {"token_ids": [0, 5, 6, 0, 0]}
    score = measured("uniq-seq", [sample], Vocabulary(special=[0]))["uniq-seq"]
    assert (score.value, score.n) == (2, 2)


def test_human_row() -> None:
    sample = {
        "token_ids": [1, 1],
        "reference_token_ids": [[1, 2, 3]],
        "target_token_ids": [4, 5],
        "predicted_token_ids": [4, 4],
    }
    assert values("uniq-seq", [sample], Vocabulary(), human=True) == {"uniq-seq": 3}
    assert values("uniq", [sample], Vocabulary(), human=True) == {"uniq": 2}
    assert values("uniq", [sample], Vocabulary()) == {"uniq": 1}


def test_korean() -> None:
    # 정말 재미있는 영화 , 좋았다 ! | 다시 보고 싶다 . | 별로였다: 6 + 4 + 1 of 7 + 8 + 1 tokens.
    score = measured("uniq-seq", [{"text": text} for text in KOREAN])["uniq-seq"]
    assert (score.value, score.n) == (11, 16)


def test_korean_reviews_differ() -> None:
    score = measured("uniq-seq", [{"text": text} for text in korean_reviews(200)])["uniq-seq"]
    assert 0.3 * score.n < score.value < score.n


def test_errors() -> None:
    with pytest.raises(UndefinedError, match="uniq-seq: no sample has a token"):
        measured("uniq-seq", [{"text": ""}])
    with pytest.raises(MissingFieldError, match="'predicted_token_ids'"):
        measured("uniq", [{"text": "a b"}])
