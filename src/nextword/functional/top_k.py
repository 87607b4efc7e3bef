"""The largest of many numbers."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

_BLOCK = 64
"""Columns that are looked at as one on a CPU; 32 and 128 take longer (50,257 columns)."""


def top_k(scores: Float[Tensor, "N V"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """Values and columns of the ``k`` largest numbers of each row, in decreasing order, as ``torch.topk``.

    On a CPU that takes as long as three passes over the numbers. The ``k`` largest lie in the ``k`` blocks of columns
    with the largest maxima, so one pass finds these, and only they are sorted.

    >>> top_k(torch.tensor([[1.0, 3.0, 2.0]]), 2)
    (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    blocks = scores.shape[1] // _BLOCK
    if k >= blocks or scores.device.type != "cpu" or torch.compiler.is_compiling():
        best = scores.topk(k)
        return best.values, best.indices
    whole = blocks * _BLOCK
    chosen = scores[:, :whole].reshape(len(scores), blocks, _BLOCK).amax(-1).topk(k).indices
    inside = (chosen[:, :, None] * _BLOCK + torch.arange(_BLOCK)).flatten(1)
    columns = torch.cat([inside, torch.arange(whole, scores.shape[1]).expand(len(scores), -1)], 1)
    best = scores.gather(1, columns).topk(k)
    return best.values, columns.gather(1, best.indices)
