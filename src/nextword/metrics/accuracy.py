"""Acc@k of a prompt with two right next words."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int


def hits_at_k(ranked: Int[np.ndarray, "N K"], wanted: Int[np.ndarray, "N 2"], k: int) -> Bool[np.ndarray, "N"]:
    """Whether **both** wanted words are among the first ``k`` predictions; for k = 1, whether the first is one of them.

    Two words cannot both be first, so Acc@1 asks the weaker question: does the single guess name a right word?

    Args:
        ranked: Token ids, most probable first. -1 stands for "no prediction" (a distribution with fewer than K words).
        wanted: The two right token ids of each row.
        k: At least 1.

    Returns:
        One truth value per row.

    Source: HistAlign (Wan et al., 2023), section 5.3, for k >= 2.

    >>> hits_at_k(np.array([[7, 3, 5], [7, 5, 3]]), np.array([[3, 7], [3, 7]]), 2).tolist()
    [True, False]
    >>> hits_at_k(np.array([[7, 3, 5], [5, 7, 3]]), np.array([[3, 7], [3, 7]]), 1).tolist()
    [True, False]
    """
    if k < 1:
        raise ValueError(f"acc@k: k must be at least 1, got {k}")
    if wanted.shape != (len(ranked), 2):
        raise ValueError(f"acc@k: wanted must be ({len(ranked)}, 2) like the {len(ranked)} rows, got {wanted.shape}")
    found = (ranked[:, None, :k] == wanted[:, :, None]).any(axis=-1)
    hits: Bool[np.ndarray, "N"] = found.any(axis=1) if k == 1 else found.all(axis=1)
    return hits


def acc_at_k(ranked: Int[np.ndarray, "N K"], wanted: Int[np.ndarray, "N 2"], k: int) -> float:
    """Share of rows that are a hit, see ``hits_at_k``.

    >>> acc_at_k(np.array([[7, 3, 5], [7, 5, 3]]), np.array([[3, 7], [3, 7]]), 2)
    0.5
    """
    if len(ranked) == 0:
        raise ValueError("acc@k: no rows")
    return float(hits_at_k(ranked, wanted, k).mean())
