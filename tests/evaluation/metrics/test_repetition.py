from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import UndefinedError
from nextword.evaluation.metrics.repetition import copies_at_end, ends_in_loop
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

TEXT = st.lists(st.integers(0, 2), max_size=40)


def copies_by_looking(tokens: list[int], phrase: int) -> int:
    """How often the last ``phrase`` tokens stand one after another at the end, copy by copy."""
    last = tokens[len(tokens) - phrase :] if phrase <= len(tokens) else None
    copies, end = 0, len(tokens)
    while last is not None and end >= phrase and tokens[end - phrase : end] == last:
        copies, end = copies + 1, end - phrase
    return max(copies, 1)


def loop_by_looking(tokens: list[int], longest: int) -> bool:
    copies = {phrase: copies_by_looking(tokens, phrase) for phrase in range(1, longest + 1)}
    best = min(copies, key=lambda phrase: (-copies[phrase], phrase))
    return copies[best] > 1 and (best >= 3 or copies[best] > 50)


@given(TEXT, st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(0, 60), st.integers(1, 90))
def test_against_looking(start: list[int], phrase: list[int], copies: int, longest: int) -> None:
    tokens = start + phrase * copies
    assert copies_at_end(tokens, longest).tolist() == [copies_by_looking(tokens, n) for n in range(1, longest + 1)]
    assert ends_in_loop(tokens, longest) == loop_by_looking(tokens, longest)


@given(TEXT, st.permutations(range(3)))
def test_names_of_tokens_do_not_matter(tokens: list[int], renamed: list[int]) -> None:
    assert ends_in_loop(tokens) == ends_in_loop([renamed[token] for token in tokens])


@given(TEXT, st.lists(st.integers(0, 9), min_size=3, max_size=20, unique=True))
def test_a_second_copy_of_different_words_is_a_loop(start: list[int], phrase: list[int]) -> None:
    assert ends_in_loop(start + phrase * 2)


@pytest.mark.parametrize(
    ("tokens", "loop"),
    [
        ([1, 2, 3, 1, 2, 3], True),  # two copies of three tokens
        ([9, 1, 2, 3, 1, 2, 3, 4], False),  # not at the end
        ([1, 2] * 4, False),  # n = 2 has four copies, n = 4 has two: n = 2 wins, and needs more than 50
        ([1, 2] * 50, False),
        ([1, 2] * 51, True),
        ([7] * 50, False),
        ([7] * 51, True),
        ([1, 7, 7, 1, 7, 7], False),  # n = 1 and n = 3 have two copies each: the shorter is taken, and is no loop
        (list(range(90)) * 2, True),
        (list(range(91)) * 2, False),  # the phrase is longer than 90
        ([], False),
        ([4], False),
    ],
)
def test_by_hand(tokens: list[int], loop: bool) -> None:
    assert ends_in_loop(tokens) is loop
    assert loop_by_looking(tokens, 90) is loop


def test_special_tokens_at_the_end_are_removed() -> None:
    loop = {"token_ids": [1, 2, 3, 1, 2, 3, 0]}
    assert values("rep", [loop], Vocabulary(special=[0])) == {"rep": 1.0}
    assert values("rep", [loop], Vocabulary()) == {"rep": 0.0}
    padded = {"token_ids": [1, 2, 3] + [0] * 60}
    assert values("rep", [padded], Vocabulary(special=[0])) == {"rep": 0.0}
    assert values("rep", [padded], Vocabulary()) == {"rep": 1.0}


def test_share_of_texts_that_are_not_empty() -> None:
    score = measured("rep", [{"token_ids": ids} for ids in ([1, 2, 3] * 2, [1], [], [1, 2, 3])], Vocabulary())["rep"]
    assert (score.value, score.n) == (pytest.approx(1 / 3), 3)
    with pytest.raises(UndefinedError, match="Rep: no sample has a value"):
        measured("rep", [{"text": ""}])


def test_korean() -> None:
    # Only "다시 보고 싶다. 다시 보고 싶다." ends in two copies of four words.
    assert values("rep", [{"text": text} for text in KOREAN]) == {"rep": pytest.approx(1 / 3)}


def test_korean_reviews_hardly_loop() -> None:
    assert values("rep", [{"text": text} for text in korean_reviews(200)])["rep"] < 0.1


def test_longest_phrase() -> None:
    text = [{"token_ids": [1, 2, 3, 4] * 2}]
    assert values({"metric": "rep", "longest_phrase": 4}, text, Vocabulary()) == {"rep": 1.0}
    assert values({"metric": "rep", "longest_phrase": 3}, text, Vocabulary()) == {"rep": 0.0}
    with pytest.raises(ValueError, match="at least 1"):
        measured({"metric": "rep", "longest_phrase": 0}, [])


def test_no_token_is_compared_for_each_phrase_length() -> None:
    compared = 0

    class Token(int):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return isinstance(other, int) and int(self) == int(other)

        __hash__ = int.__hash__

    copies = copies_at_end([Token(7) for _ in range(3000)])
    assert copies.tolist() == (3000 // np.arange(1, 91)).tolist()
    assert compared <= 3000 + 90  # and not about 90 times 3000
