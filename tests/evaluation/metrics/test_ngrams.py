from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics.ngrams import TokenTexts

texts_of_ids = st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=6)


def by_hand(texts: list[list[int]], n: int) -> list[list[tuple[int, ...]]]:
    return [[tuple(text[i : i + n]) for i in range(len(text) - n + 1)] for text in texts]


@given(texts=texts_of_ids, n=st.integers(1, 5))
def test_ngrams_are_those_of_each_text(texts: list[list[int]], n: int) -> None:
    grams = TokenTexts.of(texts).ngrams(n)
    expected = by_hand(texts, n)
    flat = [gram for text in expected for gram in text]
    assert grams.texts.tolist() == [i for i, text in enumerate(expected) for _ in text]
    assert grams.totals().tolist() == [len(text) for text in expected]
    # the same number exactly where the n-grams are the same, and numbers without gaps
    assert len({*zip(grams.ids.tolist(), flat, strict=True)}) == len(set(flat)) == grams.distinct
    assert set(grams.ids.tolist()) == set(range(grams.distinct))
    owners, _, counts = grams.counts()
    found: Counter[tuple[int, int]] = Counter()
    for owner, count in zip(owners.tolist(), counts.tolist(), strict=True):
        found[owner, count] += 1
    assert found == Counter((i, c) for i, text in enumerate(expected) for c in Counter(text).values())


def test_large_ids_do_not_overflow() -> None:
    tokens = np.array([2**62, 2**62 - 1, 2**62, 2**62 - 1])
    assert TokenTexts.of([tokens]).ngrams(3).ids.tolist() == [1, 0] or TokenTexts.of([tokens]).ngrams(3).distinct == 2
    assert TokenTexts.of([tokens]).ngrams(2).distinct == 2


def test_joined_texts_share_numbers() -> None:
    both = TokenTexts.of([[1, 2]]).joined(TokenTexts.of([[1, 2], []]))
    assert len(both) == 3
    assert both.ngrams(2).ids.tolist() == [0, 0]


def test_nothing_is_fine_and_n_is_checked() -> None:
    empty = TokenTexts.of([])
    assert (empty.ngrams(2).distinct, empty.ngrams(1).totals().tolist()) == (0, [])
    with pytest.raises(ValueError, match=r"least 1 \(0"):
        empty.ngrams(0)
