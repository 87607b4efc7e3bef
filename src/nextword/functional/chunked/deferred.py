"""A weight's gradient made last, when what the rest of the backward pass needed is gone.

The gradient of an output embedding (V, D) is large, and autograd asks for it first: while all activations of the
backbone are alive. Its factors, gradients of N scores and N states, are smaller wherever N < D. So the collector that
holds them is set aside until autograd has done everything else, and multiplied then.

This file is a fence around the one thing that torch has no public means for. Autograd carries tensors between nodes of
its graph, and nothing else; a collector is no tensor. So it is left at the node of the weight, as an attribute
(``ctx.pending``; it lives and dies with the graph), and taken from there when autograd reaches that node. Two backward
passes may go through one graph, one of which does not reach that node, or at the same time in two threads. So what is
left is filed under the number of the backward pass, ``torch._C._current_graph_task_id()``, which has no public name.
torch 2.13, the oldest version that we support, tells passes apart by it itself (``torch/autograd/graph.py``,
``torch/utils/checkpoint.py``).

Should a later torch drop it, ``defer_gradient`` returns a view of the weight. Gradients are then multiplied at once:
the same numbers, with up to (V, D) more memory while activations are alive. So it is in a compiled pass, too, in whose
graph autograd's nodes are not ours. A test runs that way as well, and another fails with what to do.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nextword.functional.chunked.weight_gradient import GradientCollector


def defer_gradient(weight: Float[Tensor, "V D"]) -> Float[Tensor, "V D"]:
    """An alias of ``weight`` whose gradient is made after those of everything recorded after this call.

    Autograd goes backwards through what was recorded last. So call it before the forward pass whose activations are to
    be freed first, and let the products read the alias. (Autograd also adds a dense gradient to a sparse one in place,
    but copies where the dense one is there first.) An alias it always is: the gradient of the weight itself would lead
    through the states, which are made of it where it is tied.
    """
    if not (torch.is_grad_enabled() and weight.requires_grad):
        return weight
    if torch.compiler.is_compiling() or _backward_pass() is None:
        return weight.view_as(weight)
    alias: Tensor = _Deferred.apply(weight)  # type: ignore[no-untyped-call]
    return alias


def deliver(collector: GradientCollector, weight: Tensor, scale: Tensor) -> Tensor | None:
    """The gradient of ``weight`` within a backward pass: what was collected, times ``scale``.

    None where ``weight`` comes from ``defer_gradient``, which makes the gradient later. The collector is used up.
    """
    pending = getattr(weight.grad_fn, "pending", None)
    if pending is None:
        return _multiplied(collector, scale, weight.dtype)
    pending.setdefault(_backward_pass(), []).append((collector, scale))
    return None


class _Deferred(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.dtype, ctx.pending = weight.dtype, {}
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Tensor | None:
        # what another pass left, which was not asked for the weight's gradient, is not part of this one
        pending = ctx.pending.pop(_backward_pass(), [])
        while pending:
            collector, scale = pending.pop()
            part = _multiplied(collector, scale, ctx.dtype)
            if part is not None:
                gradient = part if gradient is None else part.add_(gradient)
        return gradient


def _multiplied(collector: GradientCollector, scale: Tensor, dtype: torch.dtype) -> Tensor | None:
    total = collector.result()
    return None if total is None else total.to(dtype).mul_(scale)


def _backward_pass() -> int | None:
    """Number of the backward pass that is under way, -1 outside of one; None where torch does not tell."""
    number = getattr(torch._C, "_current_graph_task_id", None)
    return None if number is None else int(number())
