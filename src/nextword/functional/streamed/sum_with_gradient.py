"""Sums over all rows whose gradient is made chunk by chunk, in the pass that makes the sum.

Of a sum the gradient is known but for one factor as soon as its value is. So a chunk of dense scores is computed,
asked, turned into gradients and dropped before the next one is computed: nothing is kept or computed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import get_device_states, set_device_states

from nextword.functional.streamed.budget import concatenate_chunks
from nextword.functional.streamed.deferred import handed_over
from nextword.functional.streamed.first_order import first_order
from nextword.functional.streamed.weight_gradient import single_pass

Compute = Callable[[slice, list[Tensor]], Tensor]
"""Given a slice of the rows and these rows of the row tensors, the sum over them, a scalar."""


def summed(
    compute: Compute, chunks: list[slice], rows: Sequence[Tensor], shared: Sequence[Tensor]
) -> Float[Tensor, ""]:
    """The sum of ``compute`` over all chunks.

    Where gradients are wanted, that of each chunk is taken at once. It is kept until the backward pass, which only
    scales it; a second backward pass through the same graph computes it again. What is kept for a shared weight (V, D)
    is the smaller of its gradient and the gradient's factors.

    Half precision of 16 bits with few exponents (float16) is the exception: its gradients must be made with the loss
    scale in them, which nobody knows here, so chunks are computed again in the backward pass.

    Args:
        compute: What is summed. Everything with a gradient that it depends on is among ``rows`` and ``shared``.
        chunks: Slices that cover all rows.
        rows: Tensors with one row for each position.
        shared: Tensors that all positions depend on, such as the output embedding.
    """
    tensors = [*rows, *shared]
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if wanted and not torch.compiler.is_compiling() and not _is_scaled(tensors):
        total: Tensor = _Summed.apply(compute, chunks, len(rows), *tensors)  # type: ignore[no-untyped-call]
        return total
    return concatenate_chunks(lambda chunk: compute(chunk, [own[chunk] for own in rows])[None], chunks).sum()


def _is_scaled(tensors: Sequence[Tensor]) -> bool:
    device = tensors[0].device.type
    autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) is torch.float16
    return autocast or any(tensor.dtype is torch.float16 for tensor in tensors)


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: Compute, chunks: list[slice], count: int, *tensors: Tensor) -> Tensor:
        ctx.compute, ctx.chunks, ctx.count = compute, chunks, count
        ctx.save_for_backward(*tensors)
        ctx.random = torch.get_rng_state(), get_device_states(*tensors)
        total, ctx.gradients = _with_gradients(compute, chunks, tensors[:count], tensors[count:])
        return total

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tensors, gradients = ctx.saved_tensors, ctx.gradients
        if gradients is None:
            with _drawing_again(*ctx.random):
                _, gradients = _with_gradients(ctx.compute, ctx.chunks, tensors[: ctx.count], tensors[ctx.count :])
        ctx.gradients = None  # handed over, and nobody else's from here on
        of_rows = (None if own is None else own.mul_(gradient) for own in gradients[: ctx.count])
        shared = zip(tensors[ctx.count :], gradients[ctx.count :], strict=True)
        of_shared = (None if own is None else handed_over(weight, own, gradient) for weight, own in shared)
        return None, None, None, *of_rows, *of_shared


@contextmanager
def _drawing_again(on_cpu: Tensor, on_devices: tuple[list[int], list[Tensor]]) -> Iterator[None]:
    """Within this block random numbers are those drawn from these states, for an output layer with dropout."""
    devices, states = on_devices
    with torch.random.fork_rng(devices):
        torch.set_rng_state(on_cpu)
        set_device_states(devices, states)
        yield


def _as_they_are(tensor: Tensor) -> Tensor:
    return tensor


def _address(tensor: Tensor) -> int:
    return id(tensor) if tensor.is_sparse else tensor.data_ptr()


def _with_gradients(
    compute: Compute, chunks: list[slice], rows: Sequence[Tensor], shared: Sequence[Tensor]
) -> tuple[Tensor, list[Any]]:
    """The sum, the gradients of the rows, and those of what is shared; None for what has none."""
    of_rows = [torch.zeros_like(own) if own.requires_grad else None for own in rows]
    learned = [own for own in shared if own.requires_grad]
    totals = []
    # whoever checkpoints the whole model must not be asked for what is saved and read within this pass
    alone = saved_tensors_hooks(_as_they_are, _as_they_are)
    with torch.enable_grad(), alone, single_pass(learned) as of_learned:
        for chunk in chunks:
            given = [own.detach()[chunk].requires_grad_(own.requires_grad) for own in rows]
            total = compute(chunk, given)
            totals.append(total.detach())
            wanted = [own for own in given if own.requires_grad]
            found = torch.autograd.grad(total, [*wanted, *learned], allow_unused=True) if total.requires_grad else ()
            parts = iter(found)
            for own in of_rows:
                part = next(parts, None) if own is not None else None
                if own is not None and part is not None:
                    own[chunk] = part
            uses = Counter(_address(part) for part in found if part is not None)
            for into, part in zip(of_learned, parts, strict=False):
                if part is not None:  # autograd gives one and the same tensor to both terms of a sum
                    into.add(part, kept=uses[_address(part)] > 1)
            for into in of_learned:
                into.settle(chunk.stop / max(1, chunks[-1].stop))
    sums = iter(of_learned)
    return torch.stack(totals).sum(), [*of_rows, *(next(sums) if own.requires_grad else None for own in shared)]
