"""Tokens that are no text: padding, beginning and end of sequence, which ids of a model may bring along."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
from jaxtyping import Bool, Int


def without_special(tokens: Int[np.ndarray, "T"], special: AbstractSet[int]) -> Int[np.ndarray, "K"]:
    """The tokens that are text, wherever they stand.

    >>> without_special(np.array([0, 5, 0, 6, 0]), {0}).tolist()
    [5, 6]
    """
    text: Int[np.ndarray, "K"] = tokens[~_is_special(tokens, special)]
    return text


def before_special(tokens: Int[np.ndarray, "T"], special: AbstractSet[int]) -> Int[np.ndarray, "K"]:
    """The text up to the first special token; those that it begins with, such as a start token, do not end it.

    >>> before_special(np.array([0, 5, 0, 6, 0]), {0}).tolist()
    [5]
    """
    is_special = _is_special(tokens, special)
    start = _run_of(is_special)
    return tokens[start : start + _run_of(~is_special[start:])]


def without_end(tokens: Int[np.ndarray, "T"], special: AbstractSet[int]) -> Int[np.ndarray, "K"]:
    """The tokens without the special ones at the end.

    >>> without_end(np.array([0, 5, 0, 6, 0]), {0}).tolist()
    [0, 5, 0, 6]
    """
    return tokens[: len(tokens) - _run_of(_is_special(tokens, special)[::-1])]


def _is_special(tokens: Int[np.ndarray, "T"], special: AbstractSet[int]) -> Bool[np.ndarray, "T"]:
    found: Bool[np.ndarray, "T"] = np.zeros(len(tokens), dtype=np.bool_)
    for token in special:  # there are a handful, which is quicker than sorting them into the text
        found |= tokens == token
    return found


def _run_of(marks: Bool[np.ndarray, "T"]) -> int:
    """How many of the first marks are set."""
    return len(marks) if marks.all() else int(np.argmin(marks))
