"""Gradients of a weight that are made last, when what the rest of the backward pass needed is gone.

The gradient of an output embedding (V, D) is large, and it is asked for first: while all activations of the backbone
are alive. Its factors, gradients of N scores and N states, are smaller wherever N < D. So they wait here until autograd
has done everything else.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nextword.functional.streamed.weight_gradient import GradientSum


class _Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.dtype, ctx.waiting = weight.dtype, {}
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Tensor | None:
        # what waits for another pass, which was not asked for the weight's gradient, is not of this one
        waiting = ctx.waiting.pop(_pass(), [])
        while waiting:
            own, factor = waiting.pop()
            made = _made(own, factor, ctx.dtype)
            if made is not None:
                gradient = made if gradient is None else made.add_(gradient)
        return gradient


def late(weight: Float[Tensor, "V D"]) -> Float[Tensor, "V D"]:
    """The same weight, whose gradient comes after those of all that is computed from here on.

    To be called before the pass whose gradients are to come first: autograd goes backwards through what was recorded
    last. It also adds a dense gradient to a sparse one in place, but copies where the dense one is there first.
    """
    if torch.compiler.is_compiling() or not (torch.is_grad_enabled() and weight.requires_grad):
        return weight
    alias: Tensor = _Late.apply(weight)  # type: ignore[no-untyped-call]
    return alias


def handed_over(weight: Tensor, own: GradientSum, factor: Tensor) -> Tensor | None:
    """``factor`` times the sum as the gradient of ``weight``; None where :func:`late` made it, which makes it later.

    To be called within a backward pass, whose own the sum becomes.
    """
    waiting = getattr(weight.grad_fn, "waiting", None)
    if waiting is None:
        return _made(own, factor, weight.dtype)
    waiting.setdefault(_pass(), []).append((own, factor))
    return None


def _made(own: GradientSum, factor: Tensor, dtype: torch.dtype) -> Tensor | None:
    total = own.finished()
    return None if total is None else total.to(dtype).mul_(factor)


def _pass() -> int:
    """The number of the backward pass that is under way."""
    return int(torch._C._current_graph_task_id())
