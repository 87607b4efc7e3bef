"""Margin ranking over a memory, in five reductions, without a tensor of all pairs.

The hinges of all pairs are one weighted sum of heights: where ``max(0, h_j - h_i)`` is above 0, its pair adds its
weight to ``h_j`` and takes it from ``h_i``. These sums of weights are the gradient, and with the heights the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class RankedMemory:
    """Stored entries as seen from N positions, in the order of their ranks; every positive before every negative.

    Args:
        heights: ``s + margin * rank`` of each entry, less any number that its position's entries share.
        positive: Visible entries that hold the target.
        negative: Visible entries that do not.
    """

    heights: Float[Tensor, "N S"]
    positive: Bool[Tensor, "N S"]
    negative: Bool[Tensor, "N S"]

    @cached_property
    def last_positive(self) -> Int[Tensor, "N"]:
        """How many of a position's first entries hold all its positives."""
        column = torch.arange(1, self.positive.shape[1] + 1, device=self.positive.device)
        return (self.positive * column).amax(-1)

    @property
    def pairs(self) -> Float[Tensor, "N"]:
        """Pairs of a positive and a negative of each position."""
        return self.positive.sum(-1, dtype=torch.float64) * self.negative.sum(-1)

    def offsets(self) -> Float[Tensor, "S"]:
        """Pairs by the difference of their ranks, 0 first."""
        dtype, (reach, size) = self.heights.dtype, (int(self.last_positive.max()), self.positive.shape[1])
        together = self.positive[:, :reach].to(dtype).T @ self.negative.to(dtype)
        # row p is moved p to the left, so that a column is one difference
        width = size + reach
        skewed = F.pad(together, (0, reach)).flatten()
        return skewed.as_strided((reach, size), (width + 1, 1)).sum(0, dtype=torch.float64)


Weigh = Callable[[RankedMemory], Tensor]
"""The weight of each height (N, S) in the reduced sum of hinges."""


def pair_weights(memory: RankedMemory) -> Float[Tensor, "N S"]:
    """Weights of the heights where every pair counts 1.

    A negative counts once for every positive below it, a positive is taken away once for every negative above it. The
    positives of a position are few; sorting these is enough, and no pair is looked at.
    """
    reach = int(memory.last_positive.max())
    low, place = memory.heights[:, :reach].masked_fill(~memory.positive[:, :reach], torch.inf).sort(-1)
    below = torch.searchsorted(low.contiguous(), memory.heights).mul_(memory.negative)
    weights = below.to(memory.heights.dtype)
    # of the negatives above each positive: those with more positives below them than there are below it
    counted = weights.new_zeros(len(low), reach + 1).scatter_add_(1, below, torch.ones_like(weights))
    above = counted.flip(1).cumsum(1).flip(1)[:, 1:]
    weights[:, :reach] -= torch.zeros_like(above).scatter_(1, place, above)
    return weights


def offset_weights(memory: RankedMemory, by_offset: Float[Tensor, "S"]) -> Float[Tensor, "N S"]:
    """Weights of the heights where a pair counts by the difference of its ranks.

    All p-th entries are compared at once with what stands behind them: the weights are the same slice for all of them.
    """
    # those with many positives first, so that the others are left out by a slice
    last, order = memory.last_positive.sort(descending=True)
    heights, positive = memory.heights[order], memory.positive[order]
    own = heights.masked_fill(~positive, torch.inf)
    heights.masked_fill_(~memory.negative[order], -torch.inf)
    weights, size = torch.zeros_like(heights), heights.shape[1]
    having = torch.searchsorted(-last, -torch.arange(int(last[0]), device=last.device)).tolist()
    for first, many in enumerate(having):
        active = (heights[:many, first:] > own[:many, first, None]) * by_offset[: size - first]
        weights[:many, first:] += active
        weights[:many, first] -= active.sum(-1)
    return torch.empty_like(weights).index_copy_(0, order, weights)


def position_mean(memories: Iterable[RankedMemory]) -> Weigh:
    """Mean over the pairs of each position, summed over positions."""
    return lambda memory: pair_weights(memory) / memory.pairs.clamp_min(1)[:, None].to(memory.heights.dtype)


def pair_sum(memories: Iterable[RankedMemory]) -> Weigh:
    """Sum over all pairs (HistAlign, eq. 5)."""
    return pair_weights


def pair_mean(memories: Iterable[RankedMemory]) -> Weigh:
    """Mean over all pairs of the batch."""
    pairs = sum(float(memory.pairs.sum()) for memory in memories)
    return lambda memory: pair_weights(memory) / max(1.0, pairs)


def offset_sum(memories: Iterable[RankedMemory]) -> Weigh:
    """Sum over rank differences of the mean over all pairs of the batch that differ by it (released BART code)."""
    return _by_offset(memories, mean=False)


def offset_mean(memories: Iterable[RankedMemory]) -> Weigh:
    """The same means, and their mean over the rank differences that occur (released GPT-2 code)."""
    return _by_offset(memories, mean=True)


def _by_offset(memories: Iterable[RankedMemory], *, mean: bool) -> Weigh:
    counts = torch.zeros(())
    for memory in memories:
        counts = counts.to(memory.heights.device) + memory.offsets()
    occurring = (counts > 0).sum().clamp_min(1) if mean else 1
    by_offset = torch.where(counts > 0, 1 / counts.clamp_min(1), 0.0) / occurring
    return lambda memory: offset_weights(memory, by_offset.to(memory.heights.dtype))


REDUCTIONS: dict[str, Callable[[Iterable[RankedMemory]], Weigh]] = {
    "position_mean": position_mean,
    "pair_sum": pair_sum,
    "pair_mean": pair_mean,
    "offset_mean": offset_mean,
    "offset_sum": offset_sum,
}
"""The reductions by the name that the config gives them. Each is given the memories of the whole batch, which those
that count over the batch go through once."""

SUMS_OF_POSITIONS = frozenset({"position_mean", "pair_sum"})
"""Reductions that are sums over positions; in the others the pairs of one row weigh those of another."""
