"""Products of groups of states with groups of rows of one weight: what a factorised softmax needs, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.products.picked_rows import picked_at_once
from nextword.functional.streamed.first_order import first_order
from nextword.functional.streamed.weight_gradient import GradientSum, Product, gradient_sum_of


def _blocks(rows: Tensor, weight: Tensor) -> list[tuple[slice, Tensor]]:
    """Which rows go together, and where they stand among the asked ones."""
    size = picked_at_once(weight.shape[1] * weight.element_size(), weight.device)
    return [(slice(at, at + size), rows[at : at + size]) for at in range(0, len(rows), size)]


class _GroupedProduct(torch.autograd.Function):
    """``states[g] @ weight[ids[g]].T`` for every group g.

    Written out because autograd would make a (V, D) gradient for every group and add them up, and would keep a copy of
    every picked row until then. Here rows are picked again in the backward pass, and each group's gradient is added
    to its own rows alone.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, count: int, *groups: Tensor) -> tuple[Tensor, ...]:
        states, ids = groups[:count], groups[count:]
        device = weight.device.type
        ctx.dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        ctx.count, ctx.gathered = count, gradient_sum_of(weight)
        ctx.save_for_backward(weight, *states, *ids)
        found = []
        with torch.autocast(device, enabled=False):
            for own, rows in zip(states, ids, strict=True):
                own = own.to(ctx.dtype)
                scores = own.new_empty(len(own), len(rows))
                for at, block in _blocks(rows, weight):
                    scores[:, at] = own @ weight.index_select(0, block).to(ctx.dtype).T
                found.append(scores)
        return tuple(found)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, *groups = ctx.saved_tensors
        states, ids = groups[: ctx.count], groups[ctx.count :]
        needs_weight, _, *needs_states = ctx.needs_input_grad
        of_weight = GradientSum(weight) if ctx.gathered is None else ctx.gathered
        of_states: list[Tensor | None] = [None] * ctx.count
        for group, (own, rows, gradient) in enumerate(zip(states, ids, gradients, strict=True)):
            gradient, same = gradient.to(ctx.dtype), own.to(ctx.dtype)
            of_own = torch.zeros_like(same) if needs_states[group] else None
            blocks = _blocks(rows, weight)
            if of_own is not None:
                for at, block in blocks:
                    of_own += gradient[:, at] @ weight.index_select(0, block).to(ctx.dtype)
                of_states[group] = of_own.to(own.dtype)
            if needs_weight:
                of_weight.add_product(Product(gradient.T, same, blocks))
        own_gradient = of_weight.finished() if ctx.gathered is None else None
        return (
            None if own_gradient is None else own_gradient.to(weight.dtype), None, *of_states, *[None] * ctx.count
        )  # fmt: skip


def grouped_product(
    weight: Float[Tensor, "V D"], states: Sequence[Float[Tensor, "_R D"]], ids: Sequence[Int[Tensor, "_K"]]
) -> tuple[Float[Tensor, "_R _K"], ...]:
    """``states[g] @ weight[ids[g]].T`` for every group g, with gradients of both.

    Args:
        weight: One row a token.
        states: R_g states for each group; the groups may differ in size.
        ids: K_g rows of the weight for each group; no row belongs to two groups.

    Returns:
        Scores (R_g, K_g) for each group.

    >>> weight = torch.arange(6.0).reshape(3, 2)
    >>> [scores.tolist() for scores in grouped_product(weight, [torch.ones(1, 2)], [torch.tensor([2, 0])])]
    [[[9.0, 1.0]]]
    """
    found: tuple[Tensor, ...] = _GroupedProduct.apply(weight, len(states), *states, *ids)  # type: ignore[no-untyped-call]
    return found
