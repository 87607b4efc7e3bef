"""Chunks that are computed again in the backward pass: for questions with an answer at each position."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def concatenate_chunks(compute: Callable[[slice], Tensor], chunks: list[slice], *, recompute: bool = True) -> Tensor:
    """``compute`` of every chunk, concatenated along the rows.

    With ``recompute`` and more than one chunk, what ``compute`` builds on the way is dropped after each chunk and built
    again in the backward pass, so only its results stay. Tensors that ``compute`` reads from outside get their
    gradients as usual.

    Args:
        compute: Given a slice of the rows, returns a tensor whose first dimension runs over those rows. (With
            ``recompute`` it may be shorter, such as a sum over them.)
        chunks: From ``row_chunks``; at least one.
        recompute: Off where the result itself is as large as the intermediate values. Without gradients each part is
            then written into the result before the next one is made.
    """
    if len(chunks) == 1:
        return compute(chunks[0])
    if recompute and torch.is_grad_enabled():
        # an output layer may draw at random (LoRA's dropout), and must draw the same again
        return torch.cat([checkpoint(compute, chunk, use_reentrant=False) for chunk in chunks])
    if recompute or torch.is_grad_enabled():
        return torch.cat([compute(chunk) for chunk in chunks])
    part = compute(chunks[0])
    whole = part.new_empty(chunks[-1].stop, *part.shape[1:])
    whole[chunks[0]] = part
    del part  # before the next one is made
    for chunk in chunks[1:]:
        whole[chunk] = compute(chunk)
    return whole
