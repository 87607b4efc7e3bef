"""Longest common subsequences against the table of lists of rouge-score, places included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score import rouge_scorer

from nextword.evaluation.metrics.rouge import CommonSubsequence

texts = st.lists(st.integers(0, 4), max_size=30)


@given(texts, texts)
def test_length_and_places_are_those_of_the_table(text: list[int], other: list[int]) -> None:
    common = CommonSubsequence(text)
    places = rouge_scorer.lcs_ind(other, text)
    assert common.places(other) == places
    assert common.length(other) == len(places)


@given(texts, texts)
def test_places_are_a_subsequence_of_both(text: list[int], other: list[int]) -> None:
    places = CommonSubsequence(text).places(other)
    assert places == sorted(set(places))
    left = iter(text)
    assert all(other[place] in left for place in places)  # a search in an iterator goes on where it stopped


@given(texts, texts)
def test_length_does_not_depend_on_which_is_first(text: list[int], other: list[int]) -> None:
    assert CommonSubsequence(text).length(other) == CommonSubsequence(other).length(text) <= min(len(text), len(other))


@pytest.mark.parametrize(("text", "other", "length"), [("", "", 0), ("a", "", 0), ("", "a", 0), ("a", "a", 1)])
def test_short_texts(text: str, other: str, length: int) -> None:
    assert CommonSubsequence(text).length(other) == length
    assert CommonSubsequence(text).places(other) == list(range(length))


def test_texts_longer_than_a_machine_word() -> None:
    text = [number * 7919 % 31 for number in range(300)]
    other = [number * 104729 % 31 for number in range(250)]
    assert CommonSubsequence(text).places(other) == rouge_scorer.lcs_ind(other, text)
