"""The order of stored tokens by how near their embeddings are to that of a target."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from nextword.functional.logspace import at_least_float32


class Nearness:
    """Orders stored entries by the cosine of their token's embedding to a target's.

    Args:
        embedding: Of all tokens; gets no gradient.
        ids: The stored tokens. An id outside the embedding may stand at entries that are never ranked.
    """

    def __init__(self, embedding: Float[Tensor, "V _D"], ids: Int[Tensor, "B S"]) -> None:
        self._embedding, self._ids = embedding.detach(), ids
        stored, self._at = torch.unique(ids.clamp(0, len(embedding) - 1), return_inverse=True)
        self._stored = self._directions(stored)

    def order(
        self, row: Int[Tensor, "N"], targets: Int[Tensor, "N"], ranked: Bool[Tensor, "B S"]
    ) -> Int[Tensor, "N S"]:
        """The entries of each position's sequence: those of the target, the others nearest first, those not ranked.

        Equal cosines are ordered by place. Entries that hold the target come first whatever rounding does to theirs.

        Args:
            row: The sequence of each position.
            targets: One at each position; positions next to each other with one target share the work.
            ranked: Which entries have a rank.
        """
        other = torch.ones_like(row, dtype=torch.bool)
        other[1:] = (row[1:] != row[:-1]) | (targets[1:] != targets[:-1])
        row, targets, position = row[other], targets[other], other.cumsum(0) - 1
        # one product for each pair of distinct tokens, so that equal tokens tie to the last bit
        wanted, wanted_at = torch.unique(targets, return_inverse=True)
        with torch.autocast(self._stored.device.type, enabled=False):
            table = self._directions(wanted) @ self._stored.T
        cosine = table[wanted_at].gather(1, self._at[row])
        cosine.masked_fill_(self._ids[row] == targets[:, None], 2.0).masked_fill_(~ranked[row], -2.0)
        return cosine.argsort(dim=-1, descending=True, stable=True)[position]

    def _directions(self, tokens: Int[Tensor, "N"]) -> Float[Tensor, "N _D"]:
        return F.normalize(at_least_float32(self._embedding[tokens]), dim=-1)


def visible_first(
    order: Int[Tensor, "N S"], visible: Bool[Tensor, "N S"]
) -> tuple[Int[Tensor, "N S"], Bool[Tensor, "N S"]]:
    """The visible entries of an order before all others, each in the order in which they stood, and which those are.

    >>> order, visible = visible_first(torch.tensor([[3, 1, 0, 2]]), torch.tensor([[False, True, True, False]]))
    >>> order.tolist(), visible.int().tolist()
    ([[1, 0, 3, 2]], [[1, 1, 0, 0]])
    """
    column = torch.arange(order.shape[1], device=order.device, dtype=torch.int32)
    until = visible.cumsum(1, dtype=torch.int32)
    many = until[:, -1:]
    place = torch.where(visible, until - 1, many + column - until).long()
    return torch.empty_like(order).scatter_(1, place, order), column < many
