"""Margin ranking over a memory, in four reductions, without enumerating all triples (t, i, j)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.rows import concatenate_chunks, row_chunks


@dataclass(frozen=True)
class RankedMemory:
    """Stored entries as seen from N positions that each have a target.

    Args:
        scores: Similarity of each entry, in float32 or more: pairs are counted in the same precision.
        holds_target: Whether an entry holds the target's token.
        visible: Whether the position may see the entry.
        ranks: Rank of each entry; those that hold the target come before all others.
    """

    scores: Float[Tensor, "N S"]
    holds_target: Bool[Tensor, "N S"]
    visible: Bool[Tensor, "N S"]
    ranks: Int[Tensor, "N S"]

    @property
    def positives(self) -> Bool[Tensor, "N S"]:
        """Visible entries that hold the target."""
        return self.visible & self.holds_target

    @property
    def negatives(self) -> Bool[Tensor, "N S"]:
        """Visible entries that do not."""
        return self.visible & ~self.holds_target

    def nothing(self) -> Float[Tensor, ""]:
        """Zero that depends on the scores, for batches without pairs."""
        return self.scores.sum() * 0.0


def _by_offset(memory: RankedMemory, margin: float) -> tuple[Float[Tensor, "S"], Float[Tensor, "S"]]:
    """Summed hinges and number of pairs for every rank difference.

    Only positions with a positive are looked at, one row of S entries for each positive: Q x S instead of N x S x S.
    """
    row, positive = memory.positives.nonzero(as_tuple=True)
    size = memory.scores.shape[1]
    negatives = memory.negatives

    def sums(part: slice) -> Tensor:
        rows, columns = row[part], positive[part]
        own = memory.scores[rows, columns][:, None]
        offset = memory.ranks[rows] - memory.ranks[rows, columns][:, None]
        paired = negatives[rows] & (offset > 0)
        hinge = (memory.scores[rows] - own + margin * offset.to(own.dtype)).clamp_min(0).masked_fill(~paired, 0.0)
        index = offset.clamp_min(0).flatten()
        zero = hinge.new_zeros(size)
        total = zero.index_add(0, index, hinge.flatten())
        count = zero.index_add(0, index, paired.flatten().to(hinge.dtype))
        return torch.stack([total, count])[None]

    # four (Q, S) tensors live at once in a chunk
    chunks = row_chunks(len(row), 4 * size * memory.scores.element_size(), memory.scores.device)
    total, count = concatenate_chunks(sums, chunks or [slice(0, 0)]).sum(0)
    return total, count


def offset_sum(memory: RankedMemory, margin: float) -> Float[Tensor, ""]:
    """Sum over rank differences of the mean hinge of the pairs that differ by it."""
    total, count = _by_offset(memory, margin)
    return (total / count.clamp_min(1)).sum() + memory.nothing()


def offset_mean(memory: RankedMemory, margin: float) -> Float[Tensor, ""]:
    """Mean over the rank differences that occur of the mean hinge of the pairs that differ by it."""
    total, count = _by_offset(memory, margin)
    return (total / count.clamp_min(1)).sum() / (count > 0).sum().clamp_min(1) + memory.nothing()


def pair_sum(memory: RankedMemory, margin: float) -> Float[Tensor, ""]:
    """Sum of the hinges of all pairs.

    With ``a = s + margin * rank`` the hinge of a pair is ``max(0, a_j - a_i)``, and every negative ranks behind every
    positive, so for a positive i the sum over j needs only the sum and the number of the negatives above ``a_i``:
    one sort and suffix sums a position, O(S log S) instead of O(S^2).
    """
    used = memory.positives.any(-1).nonzero(as_tuple=True)[0]
    positives, negatives = memory.positives[used], memory.negatives[used]
    height = memory.scores[used] + margin * memory.ranks[used].to(memory.scores.dtype)
    ascending, _ = height.masked_fill(~negatives, -torch.inf).sort(-1)
    # sums of the largest 0, 1, 2, ... heights; the -inf of non-negatives are never among those asked for
    largest_first = ascending.flip(-1).clamp_min(torch.finfo(height.dtype).min / max(1, height.shape[1]))
    suffix = torch.cat([height.new_zeros(len(used), 1), largest_first.cumsum(-1)], -1)
    with torch.no_grad():
        above = height.shape[1] - torch.searchsorted(ascending.detach(), height.detach().contiguous(), right=True)
    hinges = suffix.gather(1, above) - above * height
    return hinges.masked_fill(~positives, 0.0).sum() + memory.nothing()


def pair_mean(memory: RankedMemory, margin: float) -> Float[Tensor, ""]:
    """Mean hinge over all pairs."""
    pairs = (memory.positives.sum(-1) * memory.negatives.sum(-1)).sum()
    return pair_sum(memory, margin) / pairs.clamp_min(1)


REDUCTIONS: dict[str, Callable[[RankedMemory, float], Tensor]] = {
    "offset_mean": offset_mean,
    "offset_sum": offset_sum,
    "pair_sum": pair_sum,
    "pair_mean": pair_mean,
}
"""The reductions by the name that the config gives them."""
