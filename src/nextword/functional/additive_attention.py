"""Additive attention scores in tiles: every query meets every key in D dimensions, and only the sums are kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.keys_in_place import Keys, KeysInPlace, read_keys
from nextword.functional.weight_gradient import first_order

_CHUNK_BYTES = {"cpu": 2**20}
"""Bytes of a tile's sums, by device. On a CPU few enough to stay in its cache (256 KiB to 1.5 MiB were tried)."""
_CHUNK_BYTES_ELSEWHERE = 2**26


def additive_scores(
    queries: Float[Tensor, "B Q D"],
    keys: Keys,
    vector: Float[Tensor, "D"],
    reach: Int[Tensor, "Q"] | None = None,
) -> Float[Tensor, "B Q S"]:
    """``v . tanh(q_t + k_s)`` (Bahdanau et al. 2015) in O(B Q S D) time and, beyond the result, a chunk of memory.

    The chunks are tiles of queries and keys, and are computed again in the backward pass.

    Args:
        queries: ``q_t``.
        keys: ``k_s``.
        vector: ``v``.
        reach: How many of the first keys each query needs at most; scores beyond may be left 0. None: all.
    """
    size = keys.shape[1]
    widths = [size] * queries.shape[1] if reach is None else list(accumulate(reach.tolist(), max))
    learned = [tensor for tensor in (queries, keys, vector) if isinstance(tensor, Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in learned):
        scores: Tensor = _Additive.apply(queries, read_keys(keys), vector, widths)  # type: ignore[no-untyped-call]
        return scores
    if isinstance(keys, KeysInPlace):
        return keys.scored(queries, lambda own, kept: _scores(own, kept, vector, widths))
    return _scores(queries, keys, vector, widths)


def _tiles(queries: Tensor, widths: list[int]) -> Iterator[tuple[slice, slice]]:
    """Slices of the queries, each with slices of the keys that its queries need.

    About as many queries as keys: what is added up for both is small beside the tile then.
    """
    budget = _CHUNK_BYTES.get(queries.device.type, _CHUNK_BYTES_ELSEWHERE)
    most = max(1, budget // max(1, queries.shape[0] * queries.shape[2] * queries.element_size()))
    side = math.isqrt(most)
    for start in range(0, len(widths), side):
        rows = slice(start, min(start + side, len(widths)))
        wide = most // (rows.stop - rows.start)
        for first in range(0, widths[rows.stop - 1], wide):
            yield rows, slice(first, min(first + wide, widths[rows.stop - 1]))


def _sigmoid_tiles(
    queries: Tensor, keys: Keys, widths: list[int]
) -> Iterator[tuple[slice, slice, Float[Tensor, "B _Q _S D"]]]:
    """``sigmoid(2 (q_t + k_s))`` tile by tile, each in the memory of the one before it.

    ``tanh(x) = 2 sigmoid(2 x) - 1``, and on a CPU torch's sigmoid takes a sixth of the time of its tanh.
    """
    buffer, doubled = queries.new_empty(0), 2 * queries
    for rows, columns in _tiles(queries, widths):
        q, own = doubled[:, rows, None], keys[:, columns]
        shape = (*q.shape[:2], *own.shape[1:])
        if len(buffer) < math.prod(shape):
            buffer = queries.new_empty(math.prod(shape))
        tile = buffer[: math.prod(shape)].view(shape)
        if isinstance(own, KeysInPlace) and shape[1] == 1:  # the usual step of generation: they fill the tile
            own = own.read(out=tile[:, 0])
        yield rows, columns, torch.add(q, read_keys(own)[:, None], alpha=2, out=tile).sigmoid_()


def _scores(queries: Tensor, keys: Keys, vector: Tensor, widths: list[int]) -> Tensor:
    size = keys.shape[1]
    scores, widths = queries.new_zeros(*queries.shape[:2], size), [min(width, size) for width in widths]
    twice, total = 2 * vector, vector.sum()
    for rows, columns, sigmoid in _sigmoid_tiles(queries, keys, widths):
        scores[:, rows, columns] = sigmoid @ twice - total
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
        of_queries, of_keys, of_vector = (torch.zeros_like(tensor) for tensor in (queries, keys, vector))
        one = queries.new_ones(())
        for rows, columns, sigmoid in _sigmoid_tiles(queries, keys, ctx.widths):
            tile = gradient[:, rows, columns]
            tanh = sigmoid.mul_(2).sub_(1)
            of_vector += tile.flatten() @ tanh.flatten(0, 2)
            # d tanh(x) = 1 - tanh(x)^2, in place
            inner = torch.addcmul(one, tanh, tanh, value=-1, out=tanh)
            of_queries[:, rows] += (tile[:, :, None] @ inner)[:, :, 0]
            # a product with ones: sums over the first of several dimensions are several times slower on a CPU
            ones = one.expand(len(tile), 1, tile.shape[1])
            of_keys[:, columns] += (ones @ inner.mul_(tile[..., None]).flatten(2)).view(len(tile), -1, len(vector))
        return of_queries.mul_(vector), of_keys.mul_(vector), of_vector, None
