"""Additive attention scores in chunks: every query meets every key in D dimensions, and only the sums are kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.first_order import first_order

_CHUNK_BYTES = {"cpu": 2**19}
"""Bytes of a chunk's sums, by device. On a CPU few enough to stay in its cache; larger ones were no faster."""
_CHUNK_BYTES_ELSEWHERE = 2**26


def additive_scores(
    queries: Float[Tensor, "B Q D"],
    keys: Float[Tensor, "B S D"],
    vector: Float[Tensor, "D"],
    reach: Int[Tensor, "Q"] | None = None,
) -> Float[Tensor, "B Q S"]:
    """``v . tanh(q_t + k_s)`` (Bahdanau et al. 2015) in O(B Q S D) time and, beyond the result, a chunk of memory.

    The chunks run over the queries and are computed again in the backward pass.

    Args:
        queries: ``q_t``.
        keys: ``k_s``.
        vector: ``v``.
        reach: How many of the first keys each query needs at most; scores beyond may be left 0. None: all.
    """
    size = keys.shape[1]
    widths = [size] * queries.shape[1] if reach is None else list(accumulate(reach.tolist(), max))
    if torch.is_grad_enabled() and any(given.requires_grad for given in (queries, keys, vector)):
        scores: Tensor = _Additive.apply(queries, keys, vector, widths)  # type: ignore[no-untyped-call]
        return scores
    return _scores(queries, keys, vector, widths)


def _chunks(queries: Tensor, widths: list[int]) -> Iterator[tuple[slice, int]]:
    """Slices of the queries, each with the number of keys that its queries need."""
    budget = _CHUNK_BYTES.get(queries.device.type, _CHUNK_BYTES_ELSEWHERE)
    most = budget // (queries.shape[0] * queries.shape[2] * queries.element_size())
    start = 0
    for end in range(1, len(widths) + 1):
        if end == len(widths) or (end + 1 - start) * widths[end] > most:
            yield slice(start, end), widths[end - 1]
            start = end


def _tanh(queries: Tensor, keys: Tensor, rows: slice, width: int) -> Tensor:
    return torch.add(queries[:, rows, None], keys[:, None, :width]).tanh_()


def _scores(queries: Tensor, keys: Tensor, vector: Tensor, widths: list[int]) -> Tensor:
    scores = queries.new_zeros(*queries.shape[:2], keys.shape[1])
    for rows, width in _chunks(queries, widths):
        scores[:, rows, :width] = _tanh(queries, keys, rows, width) @ vector
    return scores


class _Additive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, vector: Tensor, widths: list[int]) -> Tensor:
        ctx.save_for_backward(queries, keys, vector)
        ctx.widths = widths
        return _scores(queries, keys, vector, widths)

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, vector = ctx.saved_tensors
        of_queries, of_keys, of_vector = (torch.zeros_like(given) for given in (queries, keys, vector))
        for rows, width in _chunks(queries, ctx.widths):
            bent, own = _tanh(queries, keys, rows, width), gradient[:, rows, :width]
            of_vector += own.flatten() @ bent.flatten(0, 2)
            # d tanh(x) = 1 - tanh(x)^2, in place
            inner = bent.square_().neg_().add_(1).mul_(vector).mul_(own[..., None])
            of_queries[:, rows] = inner.sum(2)
            of_keys[:, :width] += inner.sum(1)
        return of_queries, of_keys, of_vector, None
