from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.metrics.ngram_lengths import ngrams_up_to
from nextword.metrics.ngrams import TokenTexts


@given(st.lists(st.lists(st.integers(0, 3), max_size=8), max_size=5), st.integers(1, 5))
def test_same_as_one_length_at_a_time(texts: list[list[int]], longest: int) -> None:
    tokens = TokenTexts.of(texts)
    found = list(ngrams_up_to(tokens, longest))
    assert len(found) == longest
    for n, grams in enumerate(found, 1):
        alone = tokens.ngrams(n)
        assert grams.ids.tolist() == alone.ids.tolist()
        assert grams.texts.tolist() == alone.texts.tolist()
        assert (grams.distinct, grams.number_of_texts) == (alone.distinct, alone.number_of_texts)


@given(st.lists(st.lists(st.integers(0, 3), max_size=8), max_size=5), st.integers(1, 5))
def test_equal_numbers_are_equal_ngrams(texts: list[list[int]], n: int) -> None:
    written = [tuple(text[start : start + n]) for text in texts for start in range(len(text) - n + 1)]
    *_, grams = ngrams_up_to(TokenTexts.of(texts), n)
    assert len(set(zip(written, grams.ids.tolist(), strict=True))) == len(set(written)) == grams.distinct


def test_length_below_one() -> None:
    with pytest.raises(ValueError, match="at least 1 token, got 0"):
        list(ngrams_up_to(TokenTexts.of([[1]]), 0))
