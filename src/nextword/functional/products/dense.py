"""Products of several sets of states with one output embedding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from nextword.functional.streamed.weight_gradient import Product, gradient_sum_of


def chooses_precision(device: torch.device) -> bool:
    """Whether autocast or a compiler decides how products are computed, which they do for torch's own operations."""
    return torch.compiler.is_compiling() or torch.is_autocast_enabled(device.type)


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, sizes: list[int], states: Tensor) -> tuple[Tensor, ...]:
        ctx.gathered = gradient_sum_of(weight)
        ctx.save_for_backward(weight, states)
        return tuple(_parts(F.linear(states, weight, bias), sizes))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, states = ctx.saved_tensors
        needs_weight, needs_bias, _, needs_states = ctx.needs_input_grad
        gradient = _joined(gradients)
        part, of_weight = Product(gradient.T, states), None
        if needs_weight and ctx.gathered is None:
            of_weight = part.added_to(None, weight.shape).to(weight.dtype)
        elif needs_weight:
            ctx.gathered.add_product(part)
        return (
            of_weight,
            gradient.sum(0) if needs_bias else None,
            None,
            gradient @ weight if needs_states else None,
        )


def _parts(rows: Tensor, sizes: list[int]) -> list[Tensor]:
    """The rows in parts that lie side by side in one block, each a tensor of its own for autograd and not a view."""
    storage, width = rows.untyped_storage(), rows.shape[1]
    ends = accumulate(sizes)
    return [
        rows.new_empty(0).set_(storage, (end - size) * width, (size, width), (width, 1))
        for end, size in zip(ends, sizes, strict=True)
    ]


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """The inverse: the parts as one tensor, without a copy where they lie side by side."""
    first, end = parts[0], parts[0].storage_offset()
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not (same and part.is_contiguous() and part.storage_offset() == end):
            return torch.cat(list(parts))
        end += part.numel()
    return first.as_strided((sum(map(len, parts)), first.shape[1]), first.stride())


def products(
    weight: Float[Tensor, "V D"], bias: Float[Tensor, "V"] | None, states: Sequence[Float[Tensor, "_R D"]]
) -> list[Float[Tensor, "_R V"]]:
    """``states[k] @ weight.T + bias`` for every k, as one product; each result may be changed in place.

    >>> weight = torch.arange(6.0).reshape(3, 2)
    >>> [scores.tolist() for scores in products(weight, None, [torch.ones(1, 2), torch.zeros(1, 2)])]
    [[[1.0, 5.0, 9.0]], [[0.0, 0.0, 0.0]]]
    """
    wanted = (weight, *states) if bias is None else (weight, bias, *states)
    learned = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in wanted)
    if learned and chooses_precision(weight.device):
        return [F.linear(own, weight, bias) for own in states]
    joined, sizes = states[0] if len(states) == 1 else torch.cat(list(states)), [len(own) for own in states]
    if learned:
        return list(_Products.apply(weight, bias, sizes, joined))  # type: ignore[no-untyped-call]
    return list(torch.split(F.linear(joined, weight, bias), sizes))
