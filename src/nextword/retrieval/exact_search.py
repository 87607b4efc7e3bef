"""The exact nearest keys: a product of queries and keys, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

_BLOCK = 8_192
"""Keys that are compared at once."""

_QUERIES = 1024
"""Queries that are: 64 MiB of scores."""

_GROUP = 32
"""Neighbouring keys that are looked at one by one only where the best of them may be among the nearest."""


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
        return torch.cat([self._of(part, count) for part in torch.split(queries.detach().float(), _QUERIES)])

    def _of(self, queries: Float[Tensor, "N D"], count: int) -> Int[Tensor, "N count"]:
        scores = queries.new_full((len(queries), count), -torch.inf)
        numbers = torch.full((len(queries), count), -1, dtype=torch.long, device=queries.device)
        for first, block in self.keys.blocks(_BLOCK):
            keys = block.to(queries.device)
            found = queries @ keys.T
            if self.euclidean:  # |q|² is the same for all keys
                found = found.sub_(torch.linalg.vector_norm(keys, dim=1).square_().div_(2))
            best, at = _best(found, count, scores[:, -1:])
            # the best of before are first, so of equal ones the earliest key stays
            both = torch.cat([scores, best], 1)
            of_both = torch.cat([numbers, at + first], 1)
            scores, chosen = both.topk(count)
            numbers = of_both.gather(1, chosen)
        return numbers


def _best(
    scores: Float[Tensor, "N B"], count: int, least: Float[Tensor, "N 1"]
) -> tuple[Float[Tensor, "N M"], Int[Tensor, "N M"]]:
    """The best scores of each row and where they stand: as many as asked for, or all that are above ``least``.

    Most of a block is below what was found before, and there only the largest score of each group is looked at.
    """
    if scores.shape[1] % _GROUP:
        found = scores.topk(min(count, scores.shape[1]))
        return found.values, found.indices
    groups = scores.view(len(scores), scores.shape[1] // _GROUP, _GROUP)
    largest = groups.amax(2)
    most = int((largest > least).sum(1).max()) if len(scores) else 0
    chosen = largest.topk(min(count, most)).indices
    inside = groups.gather(1, chosen[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
    values, at = inside.topk(min(count, inside.shape[1]))
    return values, chosen.gather(1, at // _GROUP) * _GROUP + at % _GROUP
