"""Plain forms of the fast functions of this package, in one line of torch each.

One loss in plain form is::

    scores = states @ weight.T + bias                      # (N, V), all at once
    log_probs = scores.log_softmax(-1)
    loss = -log_probs.gather(1, ids[:, None]).sum()        # autograd does the rest

Only tests call these functions: if one replaces its fast form, every head must give the same loss and gradients. They
do not work in place and do not use ``fused_backward``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def sum_with_gradient(
    compute: Callable[[slice, list[Tensor], None], Tensor],
    chunks: list[slice],
    rows: Sequence[Tensor],
    shared: Sequence[Tensor],
) -> Float[Tensor, ""]:
    """The sum over all rows, computed at once and differentiated by autograd."""
    return compute(slice(0, chunks[-1].stop), list(rows), None)


def dense_products(
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"] | None,
    states: Sequence[Float[Tensor, "_R D"]],
    fused_backward: object = None,
) -> list[Float[Tensor, "_R V"]]:
    """One matrix product for each tensor of ``states``."""
    return [part @ weight.T + (0.0 if bias is None else bias) for part in states]


def picked_product(
    weight: Float[Tensor, "V D"], states: Float[Tensor, "B Q D"], ids: Int[Tensor, "B K"], fused_backward: object = None
) -> Float[Tensor, "B Q K"]:
    """Products with all picked rows copied into memory."""
    return states @ weight[ids].mT


def grouped_product(
    weight: Float[Tensor, "V D"],
    states: Sequence[Float[Tensor, "_R D"]],
    ids: Sequence[Int[Tensor, "_K"]],
    fused_backward: object = None,
) -> list[Float[Tensor, "_R _K"]]:
    """One matrix product for each group."""
    return [part @ weight[group].T for part, group in zip(states, ids, strict=True)]


def softmax_at_(
    scores: Float[Tensor, "N V"], ids: Int[Tensor, "N K"], fused_backward: object = None, columns: object = None
) -> tuple[Float[Tensor, "N K"], Float[Tensor, "N"], Float[Tensor, "N"]]:
    """The scores of ``ids``, the row's log-sum-exp, and 0 as the peak, to which both are relative."""
    return scores.gather(1, ids), scores.logsumexp(-1), scores.new_zeros(len(scores))


def overwrite_(
    scores: Float[Tensor, "N V"],
    ids: Int[Tensor, "N K"],
    values: Float[Tensor, "N K"],
    present: Bool[Tensor, "N K"],
    fused_backward: object = None,
) -> Float[Tensor, "N V"]:
    """Chooses between old and new score for every token of the vocabulary."""
    new = torch.zeros_like(scores).scatter_add(1, ids, values.masked_fill(~present, 0.0))
    count = torch.zeros_like(scores).scatter_add(1, ids, present.to(scores.dtype))
    return torch.where(count > 0, new / count.clamp_min(1.0), scores)
