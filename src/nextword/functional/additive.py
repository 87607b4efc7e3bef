"""Additive attention scores in chunks: every query meets every key in D dimensions, and only the sums are kept."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from nextword.functional.rows import concatenate_chunks, row_chunks

_COPIES = 2
"""Tensors of a chunk's size alive at once: the sums, their tanh."""


def additive_scores(
    queries: Float[Tensor, "B Q D"], keys: Float[Tensor, "B S D"], vector: Float[Tensor, "D"]
) -> Float[Tensor, "B Q S"]:
    """``v . tanh(q_t + k_s)`` (Bahdanau et al. 2015) in O(B Q S D) time and, beyond the result, a chunk of memory.

    The chunks run over the queries and are computed again in the backward pass (:func:`nextword.score_memory`).
    """
    if keys.shape[1] == 0:
        return queries.new_zeros(*queries.shape[:2], 0)
    by_query = queries.transpose(0, 1)

    def score(rows: slice) -> Tensor:
        return torch.tanh(by_query[rows, :, None] + keys) @ vector

    row_bytes = keys.numel() * keys.element_size() * _COPIES
    chunks = row_chunks(len(by_query), row_bytes, queries.device) or [slice(0, 0)]
    return concatenate_chunks(score, chunks).transpose(0, 1)
