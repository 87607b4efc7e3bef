"""Where the text of a model's token ids begins and ends: padding, beginning and end of sequence are no text."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
from jaxtyping import Bool, Int


def before_special(tokens: Int[np.ndarray, "T"], special: AbstractSet[int]) -> Int[np.ndarray, "K"]:
    """The text up to the first special token; those that it begins with, such as a start token, do not end it.

    >>> before_special(np.array([0, 5, 0, 6, 0]), {0}).tolist()
    [5]
    """
    is_special: Bool[np.ndarray, "T"] = np.zeros(len(tokens), dtype=np.bool_)
    for token in special:  # there are a handful, which is quicker than sorting them into the text
        is_special |= tokens == token
    start = _run_of(is_special)
    return tokens[start : start + _run_of(~is_special[start:])]


def _run_of(marks: Bool[np.ndarray, "T"]) -> int:
    """How many of the first marks are set."""
    return len(marks) if marks.all() else int(np.argmin(marks))
