from __future__ import annotations

import numpy as np
import pytest

from nextword.metrics.special import before_special, without_end, without_special


@pytest.mark.parametrize(
    ("tokens", "bag", "until", "end_cut"),
    [
        ([], [], [], []),
        ([5], [5], [5], [5]),
        ([0, 1], [], [], []),
        ([5, 6, 1, 0, 0], [5, 6], [5, 6], [5, 6]),
        ([0, 5, 1, 6], [5, 6], [5], [0, 5, 1, 6]),
        ([0, 0, 5, 6], [5, 6], [5, 6], [0, 0, 5, 6]),
    ],
)
def test_by_hand(tokens: list[int], bag: list[int], until: list[int], end_cut: list[int]) -> None:
    text = np.array(tokens, dtype=np.int64)
    assert without_special(text, {0, 1}).tolist() == bag
    assert before_special(text, {0, 1}).tolist() == until
    assert without_end(text, {0, 1}).tolist() == end_cut
    for function in (without_special, before_special, without_end):
        assert function(text, frozenset()).tolist() == tokens
