"""Sums over all rows, with gradients computed chunk by chunk in the forward pass.

The gradient of a sum is the sum of the gradients of its terms, times one number: the incoming gradient of the backward
pass. So each chunk of scores is computed, turned into gradients and freed before the next chunk. The backward pass only
multiplies these gradients by the incoming gradient.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import get_device_states, set_device_states

from nextword.functional.inplace import concatenate_chunks
from nextword.functional.vocab_shard import ALL_COLUMNS, VocabShard
from nextword.functional.weight_gradient import FusedBackward, GradientCollector, deliver, first_order

Compute = Callable[[slice, list[Tensor], FusedBackward | None], Tensor]
"""Function that returns the sum over some rows, a scalar. Its arguments: the slice of these rows; these rows of all row
tensors; and the ``FusedBackward`` for products and functions that work in place, None if the graph may be traversed
several times."""


def sum_with_gradient(
    compute: Compute, chunks: list[slice], rows: Sequence[Tensor], shared: Sequence[Tensor]
) -> Float[Tensor, ""]:
    """Calls ``compute`` for each of ``chunks`` and returns the sum of the results.

    With gradients enabled, the gradient of each chunk is computed immediately and kept until the backward pass, which
    only scales it. A second backward pass through the same graph computes the gradients again. For a shared weight (V,
    D), either its gradient or the gradient's two factors are kept, whichever is smaller.

    For float16, gradients must include the loss scale, which is known only in the backward pass, so chunks are computed
    again there.

    Args:
        compute: Function that returns the sum of a chunk. All tensors with gradients that it uses must be in ``rows``
            or ``shared``.
        chunks: Slices that cover all rows.
        rows: Tensors with one row for each position.
        shared: Tensors that all positions depend on, such as the output embedding.
    """
    tensors = [*rows, *shared]
    differentiable = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if differentiable and not torch.compiler.is_compiling() and not _needs_loss_scale(tensors):
        total: Tensor = _SumWithGradient.apply(compute, chunks, len(rows), *tensors)  # type: ignore[no-untyped-call]
        return total
    return concatenate_chunks(lambda chunk: compute(chunk, [row[chunk] for row in rows], None)[None], chunks).sum()


def _needs_loss_scale(tensors: Sequence[Tensor]) -> bool:
    device = tensors[0].device.type
    autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) is torch.float16
    return autocast or any(tensor.dtype is torch.float16 for tensor in tensors)


class _SumWithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: Compute, chunks: list[slice], row_count: int, *tensors: Tensor) -> Tensor:
        ctx.compute, ctx.chunks, ctx.row_count = compute, chunks, row_count
        ctx.save_for_backward(*tensors)
        ctx.random_states = torch.get_rng_state(), get_device_states(*tensors)
        total, ctx.gradients = _forward_and_backward(compute, chunks, tensors[:row_count], tensors[row_count:])
        return total

    @staticmethod
    @first_order
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors  # read only once, because a caller's checkpoint recomputes them at each access
        rows, shared = tensors[: ctx.row_count], tensors[ctx.row_count :]
        # the gradients are given away below, so a second backward pass computes them again
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            with _same_random_numbers(*ctx.random_states):
                _, gradients = _forward_and_backward(ctx.compute, ctx.chunks, rows, shared)
        of_rows = (None if gradient is None else gradient.mul_(scale) for gradient in gradients.rows)
        pairs = zip(shared, gradients.shared, strict=True)
        of_shared = (None if collector is None else deliver(collector, weight, scale) for weight, collector in pairs)
        return None, None, None, *of_rows, *of_shared


@contextmanager
def _same_random_numbers(cpu_state: Tensor, device_states: tuple[list[int], list[Tensor]]) -> Iterator[None]:
    """In this block, random generators start from these states, as an output layer with dropout needs."""
    devices, states = device_states
    with torch.random.fork_rng(devices):
        torch.set_rng_state(cpu_state)
        set_device_states(devices, states)
        yield


class _Gradients(NamedTuple):
    """Gradients of the row tensors and of the shared tensors; None for a tensor without a gradient."""

    rows: list[Tensor | None]
    shared: list[GradientCollector | None]


def _forward_and_backward(
    compute: Compute, chunks: list[slice], rows: Sequence[Tensor], shared: Sequence[Tensor]
) -> tuple[Tensor, _Gradients]:
    of_rows = [torch.zeros_like(row) if row.requires_grad else None for row in rows]
    weights = [tensor for tensor in shared if tensor.requires_grad]
    fused_backward, totals = FusedBackward(weights), []
    # a caller that checkpoints the whole model need not keep or recompute what is saved and read within this function
    no_outer_hooks = saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)
    with torch.enable_grad(), no_outer_hooks:
        for chunk in chunks:
            leaves = [row.detach()[chunk].requires_grad_(row.requires_grad) for row in rows]
            total = compute(chunk, leaves, fused_backward)
            totals.append(total.detach())
            inputs = [*(leaf for leaf in leaves if leaf.requires_grad), *weights]
            gradients = torch.autograd.grad(total, inputs, allow_unused=True) if total.requires_grad else ()
            parts = iter(gradients)
            for gradient in of_rows:
                part = next(parts, None) if gradient is not None else None
                if gradient is not None and part is not None:
                    gradient[chunk] = part
            uses = Counter(_address(part) for part in gradients if part is not None)
            for collector, part in zip(fused_backward.collectors, parts, strict=False):
                if part is not None:  # autograd gives the same tensor to both terms of a sum
                    collector.add(part, shared=uses[_address(part)] > 1)
            for collector in fused_backward.collectors:
                collector.compact(chunk.stop / max(1, chunks[-1].stop))
            fused_backward.next_graph()
    collectors = iter(fused_backward.collectors)
    of_shared = [next(collectors) if tensor.requires_grad else None for tensor in shared]
    return torch.stack(totals).sum(), _Gradients(of_rows, of_shared)


def _address(tensor: Tensor) -> int:
    return id(tensor) if tensor.is_sparse else tensor.data_ptr()


# -- How many rows of dense scores are computed at once.
#
# The scores of one position over a vocabulary of 50,000 tokens take 200 KB. Training needs only one number per position
# from these scores, or a single number, so they are computed for a few rows at a time (a chunk). The memory budget
# determines the number of rows in a chunk.

_CPU_BUDGET = 128 * 2**20
"""Bytes of dense scores in memory at once on a CPU. With a smaller budget, products have fewer states, and each state
takes longer (for GPT-2 small on two cores, a third longer with 100 states than with 400). A larger budget saves little
time."""

_SUM_BUDGET = 64 * 2**20
"""The same budget for sums in training, where no other large tensor is in memory and a smaller product is fast
enough."""

_GPU_SHARE = 0.1
"""Share of the free memory of an accelerator that dense scores may take."""

_budget: ContextVar[int | None] = ContextVar("score_memory", default=None)
"""The budget set by ``score_memory``. Results do not depend on it, so it is not passed as an argument."""


@contextmanager
def score_memory(mebibytes: int | float) -> Iterator[None]:
    """In a ``with`` block, limits the memory for token scores to about ``mebibytes`` MiB.

    The scores of all V tokens are computed for as many positions at once as fit into the budget. The budget changes
    time and memory, not results. ``float("inf")`` means no limit. The automatic budget is a tenth of a GPU's free
    memory. On a CPU it is 128 MiB, in training the larger of 64 MiB and two thirds of the size of the output
    embedding's gradient. Example: ``with score_memory(64): trainer.train()``.

    >>> with score_memory(64):
    ...     row_chunks(rows=100, row_bytes=2**20, device=torch.device("cpu"))
    [slice(0, 50, None), slice(50, 100, None)]
    """
    if isinstance(mebibytes, bool) or not isinstance(mebibytes, int | float) or not mebibytes > 0:
        raise ValueError(f"score_memory: must be a positive number of MiB ({mebibytes!r} given)")
    token = _budget.set(int(min(mebibytes * 2**20, sys.maxsize)))
    try:
        yield
    finally:
        _budget.reset(token)


def row_chunks(rows: int, row_bytes: int, device: torch.device, columns: VocabShard = ALL_COLUMNS) -> list[slice]:
    """Slices that cover ``rows`` rows of ``row_bytes`` bytes each. A slice fits the memory budget, or is a single row.

    Processes that each have a shard (``columns``) of the scores make the same slices.
    """
    if torch.compiler.is_compiling():
        # a compiled graph can read neither the budget nor the free memory; a compiled step has few rows
        return [slice(0, rows)] if rows else []
    budget = _budget.get()
    if budget is None:
        budget = int(_free_memory(device) * _GPU_SHARE) if device.type == "cuda" else _CPU_BUDGET
    limit = budget // max(1, row_bytes)
    # the free memory differs between accelerators
    return _equal_slices(rows, limit if device.type == "cpu" else columns.rows_at_once(limit))


def _free_memory(device: torch.device) -> int:
    """Bytes of a GPU that torch can still allocate: the driver's free memory and the unused part of torch's own."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def sum_chunks(
    rows: int, row_bytes: int, weight_bytes: int, device: torch.device, columns: VocabShard = ALL_COLUMNS
) -> list[slice]:
    """Slices that cover the rows of a sum in which all rows add to the gradient of a weight of ``weight_bytes`` bytes.

    For every slice, the whole weight is read and its whole gradient is written. Therefore slices of few rows are slow,
    especially if the weight is large. With the automatic budget of a CPU, there is one slice if all rows together take
    no more memory than the weight.
    """
    if torch.compiler.is_compiling() or _budget.get() is not None or device.type != "cpu":
        return row_chunks(rows, row_bytes, device, columns)
    budget = weight_bytes if rows * row_bytes <= weight_bytes else max(_SUM_BUDGET, 2 * weight_bytes // 3)
    return _equal_slices(rows, budget // max(1, row_bytes))


def _equal_slices(rows: int, limit: int) -> list[slice]:
    # slices have equal size, because a last slice of few rows would cost as much as a whole one
    size = -(-rows // max(1, -(-rows // max(1, limit))))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, max(1, size))]
