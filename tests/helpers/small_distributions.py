"""Parts of small distributions in float64: 7 positions, 11 tokens, and a cache of 5."""

from __future__ import annotations

import torch
from torch import Tensor

from nextword.distribution import SoftmaxDistribution
from nextword.functional.copy_scores import CopyScores
from tests.helpers.contexts import LinearVocabulary

N, D, V, S = 7, 4, 11, 5


def randn(*shape: int, seed: int = 0) -> Tensor:
    """Drawn numbers, the same for a seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def small_scores() -> SoftmaxDistribution:
    """A softmax."""
    return SoftmaxDistribution(LinearVocabulary(randn(V, D)), randn(N, D, seed=1).requires_grad_())


def cached_entries() -> CopyScores:
    """A cache of one text; the first position sees nothing of it."""
    visible = torch.rand(N, S, generator=torch.Generator().manual_seed(2)) < 0.6
    visible[0] = False
    ids, row = torch.tensor([[3, 3, 7, 0, 10]]), torch.zeros(N, dtype=torch.long)
    return CopyScores(ids, row, randn(N, S, seed=3).requires_grad_(), visible)
