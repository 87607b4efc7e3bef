"""Products of groups of states with groups of rows of one weight: what a factorised softmax needs, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.chunked.no_second_derivative import first_order
from nextword.functional.chunked.weight_gradient import Factors, GradientCollector, SinglePass
from nextword.functional.products.picked_rows import picked_at_once


def _blocks(rows: Tensor, weight: Tensor) -> list[tuple[slice, Tensor]]:
    """Columns of the scores, each slice with the rows of the weight that they are products with."""
    size = picked_at_once(weight.shape[1] * weight.element_size(), weight.device)
    return [(slice(start, start + size), rows[start : start + size]) for start in range(0, len(rows), size)]


class _GroupedProduct(torch.autograd.Function):
    """``states[g] @ weight[ids[g]].T`` for every group g.

    Written out because autograd would make a (V, D) gradient for every group and add them up, and would keep a copy of
    every picked row until then. Here rows are picked again in the backward pass, and each group's gradient is added
    to its rows alone.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, collector: GradientCollector | None, count: int, *groups: Tensor
    ) -> tuple[Tensor, ...]:
        states, ids = groups[:count], groups[count:]
        device = weight.device.type
        ctx.dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        ctx.count, ctx.collector = count, collector
        ctx.save_for_backward(weight, *states, *ids)
        products = []
        with torch.autocast(device, enabled=False):
            for group, rows in zip(states, ids, strict=True):
                group = group.to(ctx.dtype)
                scores = group.new_empty(len(group), len(rows))
                for columns, block in _blocks(rows, weight):
                    scores[:, columns] = group @ weight.index_select(0, block).to(ctx.dtype).T
                products.append(scores)
        return tuple(products)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, *groups = ctx.saved_tensors
        states, ids = groups[: ctx.count], groups[ctx.count :]
        needs_weight, _, _, *needs_states = ctx.needs_input_grad
        collector = GradientCollector(weight) if ctx.collector is None else ctx.collector
        of_states: list[Tensor | None] = [None] * ctx.count
        for number, (group, rows, gradient) in enumerate(zip(states, ids, gradients, strict=True)):
            gradient, same = gradient.to(ctx.dtype), group.to(ctx.dtype)
            blocks = _blocks(rows, weight)
            if needs_states[number]:
                of_group = torch.zeros_like(same)
                for columns, block in blocks:
                    of_group += gradient[:, columns] @ weight.index_select(0, block).to(ctx.dtype)
                of_states[number] = of_group.to(group.dtype)
            if needs_weight:
                collector.add_factors(Factors(gradient.T, same, blocks))
        of_weight = collector.result() if ctx.collector is None else None
        return (
            None if of_weight is None else of_weight.to(weight.dtype), None, None, *of_states, *[None] * ctx.count
        )  # fmt: skip


def grouped_product(
    weight: Float[Tensor, "V D"],
    states: Sequence[Float[Tensor, "_R D"]],
    ids: Sequence[Int[Tensor, "_K"]],
    single_pass: SinglePass | None = None,
) -> tuple[Float[Tensor, "_R _K"], ...]:
    """``states[g] @ weight[ids[g]].T`` for every group g, with gradients of both.

    Args:
        weight: One row a token.
        states: R_g states for each group; the groups may differ in size.
        ids: K_g rows of the weight for each group; no row belongs to two groups.
        single_pass: Collects the gradient of the weight, where it has a collector for it.

    Returns:
        Scores (R_g, K_g) for each group.

    >>> weight = torch.arange(6.0).reshape(3, 2)
    >>> [scores.tolist() for scores in grouped_product(weight, [torch.ones(1, 2)], [torch.tensor([2, 0])])]
    [[[9.0, 1.0]]]
    """
    collector = None if single_pass is None else single_pass.collector(weight)
    products: tuple[Tensor, ...] = _GroupedProduct.apply(weight, collector, len(states), *states, *ids)  # type: ignore[no-untyped-call]
    return products
