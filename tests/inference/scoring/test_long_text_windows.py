from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.inference.scoring.long_text import windows_after


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 300))
def test_every_token_is_scored_exactly_once(size: int, stride: int, more: int) -> None:
    stride = min(stride, size)
    length = size + 1 + more
    found = windows_after(1, length, size, stride)
    assert [target for window in found for target in window.targets] == list(range(1, length))
    for window in found:
        assert window.begin >= 0
        assert window.size == size
        assert window.begin + size <= length - 1  # the inputs end before the last target
        assert window.targets.stop == window.begin + size + 1


@given(st.integers(2, 40), st.integers(1, 39), st.integers(0, 200))
def test_later_windows_give_context(size: int, stride: int, more: int) -> None:
    stride = min(stride, size)
    for window in windows_after(1, size + 1 + more, size, stride)[1:]:
        assert all(target - window.begin > size - stride for target in window.targets)


@pytest.mark.parametrize("length", range(2, 12))
@pytest.mark.parametrize("first", range(1, 8))
@pytest.mark.parametrize(("size", "stride"), [(1, 1), (4, 2), (4, 4), (5, 1), (20, 10)])
def test_after_a_prompt_each_token_is_scored_once(length: int, first: int, size: int, stride: int) -> None:
    if first >= length:
        return
    spans = windows_after(first, length, size, stride)
    assert [token for span in spans for token in span.targets] == list(range(first, length))
    for span in spans:
        assert span.size <= size
        assert span.begin >= 0
        assert span.scored <= span.size
        assert span.begin + span.size + 1 <= length
    for before, span in pairwise(spans):
        # the first of a later window has at least size - stride tokens before it in its window
        assert span.targets.start - span.begin > min(size, length - 1) - stride
        assert before.targets.stop == span.targets.start
