"""Where the same token, or the same n-gram, stood before."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def previous(keys: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
    """The last place before each one that has an equal key; -1 where there is none.

    >>> previous(np.array([7, 8, 7, 7])).tolist()
    [-1, -1, 0, 2]
    """
    found = np.full(len(keys), -1, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    equal = keys[order][1:] == keys[order][:-1]
    found[order[1:][equal]] = order[:-1][equal]
    return found


def ngram_keys(ids: Int[np.ndarray, "M"], n: int) -> Int[np.ndarray, "_K"]:
    """A number for the n-gram that begins at each place, equal where the n-grams are.

    >>> ngram_keys(np.array([5, 6, 5, 6]), 2).tolist()
    [0, 1, 0]
    """
    keys = np.unique(ids, return_inverse=True)[1].astype(np.int64)
    single, size = keys, int(keys.max(initial=0)) + 1
    for step in range(1, n):
        # Numbered anew after each token, so that no product leaves 64 bits.
        longer = keys[:-1] * size + single[step:]
        keys = np.unique(longer, return_inverse=True)[1].astype(np.int64)
    return keys
