"""What a softmax needs of dense scores: the asked ones and the normaliser, without a second (N, V) tensor."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.streamed.first_order import first_order
from nextword.functional.streamed.weight_gradient import is_single_pass


def softmax_at(
    scores: Float[Tensor, "N V"], ids: Int[Tensor, "N K"]
) -> tuple[Float[Tensor, "N K"], Float[Tensor, "N"], Float[Tensor, "N"]]:
    """K asked scores a row and the log-sum-exp of the row, both relative to the row's peak; ``scores`` are used up.

    The exponentials take the scores' place, and in a single pass the gradient takes theirs; otherwise the backward pass
    makes one more (N, V) tensor.

    Args:
        scores: Dense scores that nobody else reads; no row is ``-inf`` throughout.
        ids: Asked tokens.

    Returns:
        Asked scores less the peak; log-sum-exp less the peak; the peak, which counts as a constant: whatever is made of
        these does not depend on it.

    >>> asked, total, peak = softmax_at(torch.tensor([[100.0, 101.0, 102.0]]), torch.tensor([[2, 0]]))
    >>> asked, total, peak
    (tensor([[ 0., -2.]]), tensor([0.4076]), tensor([102.]))
    """
    if torch.is_grad_enabled() and scores.requires_grad:
        asked, total, peak, _ = _SoftmaxAt.apply(scores, ids)  # type: ignore[no-untyped-call]
        return asked, total, peak
    asked, mass, peak = _softmax_at(scores, ids)
    return asked, mass.log(), peak


def _softmax_at(scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    peak = scores.amax(-1, keepdim=True)
    asked = scores.gather(1, ids) - peak
    return asked, scores.sub_(peak).exp_().sum(-1), peak[:, 0]


class _SoftmaxAt(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        asked, mass, peak = _softmax_at(scores, ids)
        ctx.mark_dirty(scores)
        ctx.mark_non_differentiable(peak)
        ctx.set_materialize_grads(False)  # what is left of the scores would get (N, V) zeros
        ctx.save_for_backward(scores, ids, mass)
        ctx.in_place = is_single_pass()
        return asked, mass.log(), peak, scores

    @staticmethod
    @first_order
    def backward(ctx: Any, of_asked: Tensor | None, of_total: Tensor | None, *_: None) -> tuple[Tensor, None]:
        exponentials, ids, mass = ctx.saved_tensors
        share = torch.zeros_like(mass) if of_total is None else of_total / mass
        of_scores = exponentials.mul_(share[:, None]) if ctx.in_place else exponentials * share[:, None]
        return of_scores if of_asked is None else of_scores.scatter_add_(1, ids, of_asked), None
