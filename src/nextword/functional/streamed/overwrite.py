"""Writing new values over single scores, in place, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.streamed.first_order import first_order
from nextword.functional.streamed.weight_gradient import is_single_pass


def overwrite(
    scores: Float[Tensor, "N V"], ids: Int[Tensor, "N K"], values: Float[Tensor, "N K"], present: Bool[Tensor, "N K"]
) -> Float[Tensor, "N V"]:
    """Puts ``values`` in place of the scores of ``ids`` wherever ``present``; ``scores`` itself is changed.

    The overwritten scores get no gradient. No second (N, V) tensor is made in the forward pass; the backward pass makes
    one, unless it is a single pass, whose gradient nobody else reads.

    Args:
        scores: Dense scores that nobody else reads.
        ids: Tokens to overwrite; those present in a row must differ, or agree in value.
        values: What to write.
        present: Which columns count.

    >>> overwrite(torch.zeros(1, 3), torch.tensor([[2, 0]]), torch.tensor([[5.0, 7.0]]), torch.tensor([[True, False]]))
    tensor([[0., 0., 5.]])
    """
    if ids.shape[1] == 0:
        return scores
    if torch.is_grad_enabled() and (scores.requires_grad or values.requires_grad):
        written: Tensor = _Overwrite.apply(scores, ids, values.to(scores.dtype), present)  # type: ignore[no-untyped-call]
        return written
    return _write(scores, ids, values.to(scores.dtype), present)


def _write(target: Tensor, ids: Tensor, values: Tensor, present: Tensor) -> Tensor:
    # Every column of a scatter writes somewhere. Absent ones repeat what the first present one writes; in a row without
    # any they write what stands there already. So no index depends on how many are present, and a step can be compiled.
    first = present.int().argmax(1, keepdim=True)
    place = ids.gather(1, first)
    value = torch.where(present.any(1, keepdim=True), values.gather(1, first), target.gather(1, place))
    return target.scatter_(1, torch.where(present, ids, place), torch.where(present, values, value))


class _Overwrite(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, ids: Tensor, values: Tensor, present: Tensor) -> Tensor:
        ctx.mark_dirty(scores)
        ctx.save_for_backward(ids, present)
        ctx.in_place = is_single_pass()
        return _write(scores, ids, values, present)

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        ids, present = ctx.saved_tensors
        wants_scores, _, wants_values, _ = ctx.needs_input_grad
        of_values = gradient.gather(1, ids).masked_fill(~present, 0.0) if wants_values else None
        of_scores = None
        if wants_scores:
            of_scores = _write(
                gradient if ctx.in_place else gradient.clone(),
                ids,
                torch.zeros_like(ids, dtype=gradient.dtype),
                present,
            )
        return of_scores, None, of_values, None
