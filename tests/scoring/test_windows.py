from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.scoring.windows import windows


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 300))
def test_every_token_is_scored_exactly_once(size: int, stride: int, more: int) -> None:
    stride = min(stride, size)
    length = size + 1 + more
    found = windows(length, size, stride)
    assert [target for window in found for target in window.targets] == list(range(1, length))
    for window in found:
        assert window.begin >= 0
        assert window.size == size
        assert window.begin + size <= length - 1  # the inputs end before the last target
        assert window.targets.stop == window.begin + size + 1


@given(st.integers(2, 40), st.integers(1, 39), st.integers(0, 200))
def test_later_windows_give_context(size: int, stride: int, more: int) -> None:
    stride = min(stride, size)
    for window in windows(size + 1 + more, size, stride)[1:]:
        assert all(target - window.begin > size - stride for target in window.targets)


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"the text has 4 tokens, shorter than one window of 8"):
        windows(5, 8, 4)
    with pytest.raises(ValueError, match=r"task.stride: must be from 1 to the window of 8 \(9 given"):
        windows(100, 8, 9)
