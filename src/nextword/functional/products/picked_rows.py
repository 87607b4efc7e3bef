"""Products of states with few rows of a weight, picked in blocks: what single tokens' scores cost, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.chunked.no_second_derivative import first_order
from nextword.functional.chunked.weight_gradient import Factors, GradientCollector, SinglePass
from nextword.functional.products.in_pieces import only_torch_operations
from nextword.functional.products.rows_in_place import products_in_place, reads_in_place

PICKED_BYTES = {"cpu": 8 * 2**20}
"""Bytes of a weight's rows picked at once, by device. On a CPU a new large block of memory costs more than the copy
into it."""
PICKED_BYTES_ELSEWHERE = 2**28


def picked_at_once(row_bytes: int, device: torch.device) -> int:
    """How many rows of so many bytes each are picked at once, at least one."""
    return max(1, PICKED_BYTES.get(device.type, PICKED_BYTES_ELSEWHERE) // max(1, row_bytes))


def picked_product(
    weight: Float[Tensor, "V D"],
    states: Float[Tensor, "B Q D"],
    ids: Int[Tensor, "B K"],
    single_pass: SinglePass | None = None,
) -> Float[Tensor, "B Q K"]:
    """``states[b] @ weight[ids[b]].T`` for every b, with gradients of both; autograd gets a sparse one of the weight.

    Picked rows are dropped after each block and picked again in the backward pass. On a CPU the gradient of a weight in
    float16 is dense.

    >>> weight = torch.arange(6.0).reshape(3, 2)
    >>> picked_product(weight, torch.ones(1, 1, 2), torch.tensor([[2, 0]]))
    tensor([[[9., 1.]]])
    """
    if only_torch_operations(weight.device):
        return states @ torch.nn.functional.embedding(ids, weight).mT
    if torch.is_grad_enabled() and (weight.requires_grad or states.requires_grad):
        collector = None if single_pass is None else single_pass.collector(weight)
        scores: Tensor = _PickedProduct.apply(weight, states, ids, collector)  # type: ignore[no-untyped-call]
        return scores
    return _product(weight, states, ids)


def _picked(weight: Tensor, ids: Tensor, dtype: torch.dtype) -> Iterator[tuple[slice, slice, Tensor]]:
    """Blocks of rows and columns of ``ids`` with the rows of the weight that they name (R, K, D).

    Each lies in the memory of the one before it.
    """
    most, width = picked_at_once(weight.shape[1] * weight.element_size(), weight.device), ids.shape[1]
    rows, columns = max(1, most // max(1, width)), max(1, min(most, width))
    buffer = weight.new_empty(0, weight.shape[1])
    for start in range(0, len(ids), rows):
        for first in range(0, width, columns):
            block, part = slice(start, start + rows), slice(first, first + columns)
            named = ids[block, part]
            if len(buffer) < named.numel():
                buffer = weight.new_empty(named.numel(), weight.shape[1])
            picked = torch.index_select(weight.detach(), 0, named.flatten(), out=buffer[: named.numel()])
            yield block, part, picked.view(*named.shape, weight.shape[1]).to(dtype)


def _product(weight: Tensor, states: Tensor, ids: Tensor) -> Tensor:
    if reads_in_place(weight, states, ids.numel()):
        return products_in_place(weight, states, ids)
    scores = states.new_empty(*states.shape[:2], ids.shape[1])
    for block, part, rows in _picked(weight, ids, states.dtype):
        scores[block, :, part] = states[block] @ rows.mT
    return scores


class _PickedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, states: Tensor, ids: Tensor, collector: GradientCollector | None) -> Tensor:
        ctx.collector = collector
        ctx.save_for_backward(weight, states, ids)
        return _product(weight, states, ids)

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        weight, states, ids = ctx.saved_tensors
        of_states = None
        if ctx.needs_input_grad[1]:
            of_states = torch.zeros_like(states)
            for block, part, rows in _picked(weight, ids, states.dtype):
                of_states[block] += gradient[block, :, part] @ rows
        if not ctx.needs_input_grad[0]:
            return None, of_states, None, None
        if ctx.collector is None:
            return _sum_of_rows(ids.flatten(), (gradient.mT @ states).flatten(0, 1), weight), of_states, None, None
        # row v of the weight's gradient sums gradient[n, v] states[n] over the few places n that picked it
        count = len(states) * states.shape[1]
        places = torch.arange(count, device=ids.device).repeat_interleave(ids.shape[1])
        tokens = ids[:, None].expand(-1, states.shape[1], -1).flatten()
        left = _sparse(torch.stack([tokens, places]), gradient.flatten(), torch.Size([len(weight), count]))
        ctx.collector.add_factors(Factors(left, states.flatten(0, 1)))
        return None, of_states, None, None


def _sum_of_rows(ids: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a weight from gradients of its rows, some rows several times; sparse where torch can add it."""
    if weight.dtype is torch.float16 and weight.device.type == "cpu":  # where torch adds no sparse tensors
        total = torch.zeros(weight.shape).index_add_(0, ids, rows.float())
        return total.to(weight.dtype)
    return _sparse(ids[None], rows, weight.shape)


def _sparse(indices: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)
