"""Products of several sets of states with one output embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from nextword.functional.chunked.weight_gradient import Factors, GradientCollector, SinglePass
from nextword.functional.products.in_pieces import only_torch_operations, product


def dense_products(
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"] | None,
    states: Sequence[Float[Tensor, "_R D"]],
    single_pass: SinglePass | None = None,
) -> list[Float[Tensor, "_R V"]]:
    """``states[k] @ weight.T + bias`` for every k, as one product; each result may be changed in place.

    >>> weight = torch.arange(6.0).reshape(3, 2)
    >>> [scores.tolist() for scores in dense_products(weight, None, [torch.ones(1, 2), torch.zeros(1, 2)])]
    [[[1.0, 5.0, 9.0]], [[0.0, 0.0, 0.0]]]
    """
    inputs = (weight, *states) if bias is None else (weight, bias, *states)
    differentiable = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    if differentiable and only_torch_operations(weight.device):
        return [F.linear(part, weight, bias) for part in states]
    joined, sizes = states[0] if len(states) == 1 else torch.cat(list(states)), [len(part) for part in states]
    if differentiable:
        collector = None if single_pass is None else single_pass.collector(weight)
        return list(_DenseProducts.apply(weight, bias, sizes, joined, collector))  # type: ignore[no-untyped-call]
    return list(torch.split(product(joined, weight, bias), sizes))


class _DenseProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        bias: Tensor | None,
        sizes: list[int],
        states: Tensor,
        collector: GradientCollector | None,
    ) -> tuple[Tensor, ...]:
        ctx.collector = collector
        ctx.save_for_backward(weight, states)
        # `data`: separate tensors in one block of memory; autograd lets none of several views be changed in place
        return tuple(part.data for part in torch.split(F.linear(states, weight, bias), sizes))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, states = ctx.saved_tensors
        needs_weight, needs_bias, _, needs_states, _ = ctx.needs_input_grad
        gradient = _joined(gradients)
        factors, of_weight = Factors(gradient.T, states), None
        if needs_weight and ctx.collector is None:
            of_weight = factors.add_to_(None, weight.shape).to(weight.dtype)
        elif needs_weight:
            ctx.collector.add_factors(factors)
        return (
            of_weight,
            gradient.sum(0) if needs_bias else None,
            None,
            gradient @ weight if needs_states else None,
            None,
        )


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """The parts one after another; without a copy where they lie so in memory, as gradients written over scores do."""
    first, end = parts[0], parts[0].storage_offset()
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not (same and part.is_contiguous() and part.storage_offset() == end):
            return torch.cat(list(parts))
        end += part.numel()
    return first.as_strided((sum(map(len, parts)), first.shape[1]), first.stride())
