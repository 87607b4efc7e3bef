"""The exact nearest keys: a product of queries and keys, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

_BLOCK = 16_384
"""Keys that are compared at once."""

_QUERIES = 1024
"""Queries that are: 64 MiB of scores."""


@runtime_checkable
class Keys(Protocol):
    """What can be searched."""

    def __len__(self) -> int: ...

    def blocks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "B D"]]]:
        """All keys in pieces, each with the number of its first."""
        ...


@runtime_checkable
class Search(Protocol):
    """A way to find the nearest keys."""

    def nearest(self, queries: Float[Tensor, "N D"], count: int) -> Int[Tensor, "N count"]:
        """Numbers of the nearest keys, nearest first; -1 where fewer were found."""
        ...


class ExactSearch:
    """Finds the keys with the smallest Euclidean distance, or the largest dot product.

    Args:
        keys: What is searched.
        euclidean: Whether distances decide, else dot products.
    """

    def __init__(self, keys: Keys, euclidean: bool = True) -> None:
        self.keys = keys
        self.euclidean = euclidean

    @torch.no_grad()
    def nearest(self, queries: Float[Tensor, "N D"], count: int) -> Int[Tensor, "N count"]:
        """Numbers of the nearest keys, nearest first; -1 where there are fewer than ``count``."""
        return torch.cat([self._of(part, count) for part in torch.split(queries.float(), _QUERIES)])

    def _of(self, queries: Float[Tensor, "N D"], count: int) -> Int[Tensor, "N count"]:
        scores = queries.new_full((len(queries), count), -torch.inf)
        numbers = torch.full((len(queries), count), -1, dtype=torch.long, device=queries.device)
        for first, block in self.keys.blocks(_BLOCK):
            keys = block.to(queries.device)
            found = queries @ keys.T
            if self.euclidean:  # |q|² is the same for all keys
                found = found.sub_(torch.linalg.vector_norm(keys, dim=1).square_().div_(2))
            best = found.topk(min(count, found.shape[1]))
            # the best of before are first, so of equal ones the earliest key stays
            both = torch.cat([scores, best.values], 1)
            of_both = torch.cat([numbers, best.indices + first], 1)
            scores, chosen = both.topk(count)
            numbers = of_both.gather(1, chosen)
        return numbers
