"""Keys, the vectors that queries are compared with, read in place as rows of one tensor.

A serving engine stores the positions of a text in scattered blocks of its cache. Copying these into one tensor at every
step would cost more than the products of queries and keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.probability import at_least_float32
from nextword.functional.products import picked_product, product, products_in_place, reads_in_place


@dataclass(frozen=True)
class KeysInPlace:
    """Keys (B, S, D) that are rows of one tensor.

    >>> keys = KeysInPlace(torch.arange(6.0).reshape(3, 2), torch.tensor([[2, 0]]))
    >>> keys[:, 1:].read()
    tensor([[[0., 1.]]])

    Args:
        table: The tensor with these and other rows.
        index: Row of each key in ``table``.
        counts: Number of keys of each sequence. They come first in the sequence's row of ``index``, and the rest is
            unused. None if only the GPU has these numbers.
    """

    table: Float[Tensor, "R D"]
    index: Int[Tensor, "B S"]
    counts: tuple[int, ...] | None = None

    @property
    def shape(self) -> torch.Size:
        """The shape (B, S, D)."""
        return self.index.shape + self.table.shape[1:]

    def __getitem__(self, part: Any) -> KeysInPlace:
        """Selects sequences with the first slice, and positions of each with the second."""
        rows: slice
        rows, positions = part if isinstance(part, tuple) else (part, slice(None))
        first, end, _ = positions.indices(self.index.shape[1])
        counts = None if self.counts is None else tuple(max(0, min(end, one) - first) for one in self.counts[rows])
        return KeysInPlace(self.table, self.index[rows, positions], counts)

    def read(self, out: Tensor | None = None) -> Float[Tensor, "B S D"]:
        """A copy of the keys: in ``out`` if it has the dtype of ``table``, otherwise a float32 or float64 tensor."""
        if out is None or out.dtype != self.table.dtype:
            return at_least_float32(self.table[self.index])
        return torch.index_select(self.table, 0, self.index.flatten(), out=out.flatten(0, 1)).view(self.shape)

    def scored(self, queries: Float[Tensor, "B Q D"], score: Callable[[Tensor, KeysInPlace], Tensor]) -> Tensor:
        """Scores (B, Q, S) that ``score`` computes from queries and keys; with ``counts``, 0 after the last key."""
        if self.counts is None:
            return score(queries, self)
        scores = queries.new_zeros(*queries.shape[:2], self.index.shape[1])
        for row, count in enumerate(self.counts):
            own = slice(row, row + 1)
            scores[own, :, :count] = score(queries[own], KeysInPlace(self.table, self.index[own, :count]))
        return scores


Keys = Float[Tensor, "B S D"] | KeysInPlace
"""Keys as a tensor, or as rows of a larger tensor."""


def read_keys(keys: Keys) -> Float[Tensor, "B S D"]:
    """Keys as a tensor."""
    return keys.read() if isinstance(keys, KeysInPlace) else keys


def key_products(queries: Float[Tensor, "B Q D"], keys: Keys) -> Float[Tensor, "B Q S"]:
    """Dot products of queries and keys."""
    if isinstance(keys, KeysInPlace):
        rows = keys.index.numel() if keys.counts is None else sum(keys.counts)
        if reads_in_place(keys.table, queries, rows):
            return products_in_place(keys.table, queries, keys.index, keys.counts)
        return keys.scored(queries, lambda own, kept: picked_product(kept.table, own, kept.index))
    if len(keys) == len(queries) == 1:
        return product(queries[0], keys[0])[None]
    if queries.shape[1] == 1 and len(keys) == len(queries):  # with the keys first, BLAS reads them once
        return torch.bmm(keys, queries.mT).mT
    return queries @ keys.mT


class StreamsInPlace(Mapping[str, Tensor]):
    """A mapping from name to tensor (B, S, ...), which is copied from rows of ``tables[name]`` when it is accessed."""

    def __init__(
        self, tables: Mapping[str, Tensor], index: Int[Tensor, "B S"], counts: tuple[int, ...] | None = None
    ) -> None:
        self._tables, self._index, self._counts = tables, index, counts

    def __getitem__(self, name: str) -> Tensor:
        return self._tables[name][self._index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def in_place(self, name: str) -> KeysInPlace:
        """Rows of ``tables[name]`` as ``KeysInPlace``, not copied."""
        return KeysInPlace(self._tables[name], self._index, self._counts)
