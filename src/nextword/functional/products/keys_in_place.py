"""Keys that stay where they lie: rows of one tensor, read a piece at a time.

A serving engine keeps the places of a text in blocks anywhere in its cache. Picking all of them into a tensor of their
own in every step costs more than the products that are made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.logspace import at_least_float32
from nextword.functional.products.picked_rows import picked_product


@dataclass(frozen=True)
class KeysInPlace:
    """Keys (B, S, D) that are rows of one tensor.

    >>> keys = KeysInPlace(torch.arange(6.0).reshape(3, 2), torch.tensor([[2, 0]]))
    >>> keys[:, 1:].read()
    tensor([[[0., 1.]]])

    Args:
        table: All rows.
        index: Which row each key is.
    """

    table: Float[Tensor, "R D"]
    index: Int[Tensor, "B S"]

    @property
    def shape(self) -> torch.Size:
        """(B, S, D)."""
        return torch.Size((*self.index.shape, self.table.shape[1]))

    def __getitem__(self, part: Any) -> KeysInPlace:
        """Some sequences, or with a second slice some places of each."""
        return replace(self, index=self.index[part])

    def read(self) -> Float[Tensor, "B S D"]:
        """A copy of the keys."""
        return at_least_float32(self.table[self.index])


Keys = Float[Tensor, "B S D"] | KeysInPlace
"""Keys as a tensor of their own, or where they lie."""


def read_keys(keys: Keys) -> Float[Tensor, "B S D"]:
    """Keys as a tensor."""
    return keys.read() if isinstance(keys, KeysInPlace) else keys


def key_products(queries: Float[Tensor, "B Q D"], keys: Keys) -> Float[Tensor, "B Q S"]:
    """Dot products of queries and keys."""
    if isinstance(keys, KeysInPlace):
        return picked_product(keys.table, queries, keys.index)
    return queries @ keys.transpose(1, 2)


class StreamsInPlace(Mapping[str, Tensor]):
    """Streams (B, S, ...) by name, copied from their rows when they are asked for.

    Args:
        tables: All rows of each stream.
        index: Which row each place is (B, S).
    """

    def __init__(self, tables: Mapping[str, Tensor], index: Int[Tensor, "B S"]) -> None:
        self._tables, self._index = tables, index

    def __getitem__(self, name: str) -> Tensor:
        return self._tables[name][self._index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def in_place(self, name: str) -> KeysInPlace:
        """A stream of vectors, not copied."""
        return KeysInPlace(self._tables[name], self._index)
