"""Products with an output embedding, whose weight's gradient is added up where the products are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


@dataclass
class GradientSum:
    """The gradient of one tensor, added up in place, in single precision at least.

    A new (V, D) tensor for every product costs more than adding to the one that is there.
    """

    total: Tensor | None = None
    _sparse: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def add(self, gradient: Tensor) -> None:
        """One more part of it."""
        if self.total is None:
            self.total = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
        else:
            self.total.add_(gradient)

    def add_product(self, left: Float[Tensor, "V N"], right: Float[Tensor, "N D"]) -> None:
        """``left @ right``; the left may be sparse."""
        if left.is_sparse and self.total is None:
            self._sparse.append((left, right))  # cheap once there is something to add it to
        elif self.total is not None and self.total.dtype == left.dtype:
            self.total.addmm_(left, right)
        else:
            self.add(left @ right)
        if self.total is not None:
            self._add_waiting()

    def finished(self) -> Tensor | None:
        """The sum; None where nothing was added."""
        if self.total is None and self._sparse:
            self.add(torch.sparse.mm(*self._sparse.pop()))
        self._add_waiting()
        return self.total

    def _add_waiting(self) -> None:
        while self._sparse:
            self.add_product(*self._sparse.pop())


_gathered: ContextVar[dict[int, GradientSum] | None] = ContextVar("gathered_gradients", default=None)


@contextmanager
def gathered_gradients(tensors: Sequence[Tensor]) -> Iterator[list[GradientSum]]:
    """Products made within this block add the gradients of these weights here, and give none to autograd.

    One block serves any number of backward passes; whatever else depends on a weight has its gradient from autograd,
    to be added by the caller.
    """
    sums = [GradientSum() for _ in tensors]
    token = _gathered.set({id(tensor): own for tensor, own in zip(tensors, sums, strict=True)})
    try:
        yield sums
    finally:
        _gathered.reset(token)


def gradient_sum_of(weight: Tensor) -> GradientSum | None:
    """Where the gradient of this weight is gathered, if it is.

    To be asked in a forward pass: on an accelerator the backward pass runs in another thread.
    """
    return (_gathered.get() or {}).get(id(weight))


def chooses_precision(device: torch.device) -> bool:
    """Whether autocast or a compiler decides how products are computed, which they do for torch's own operations."""
    return torch.compiler.is_compiling() or torch.is_autocast_enabled(device.type)


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, *states: Tensor) -> tuple[Tensor, ...]:
        ctx.gathered = gradient_sum_of(weight)
        ctx.save_for_backward(weight, *states)
        return tuple(F.linear(own, weight, bias) for own in states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, *states = ctx.saved_tensors
        needs_weight, needs_bias, *needs_states = ctx.needs_input_grad
        of_weight = GradientSum() if ctx.gathered is None else ctx.gathered
        of_states: list[Tensor | None] = []
        for gradient, own, needed in zip(gradients, states, needs_states, strict=True):
            of_states.append(gradient @ weight if needed else None)
            if needs_weight:
                of_weight.add_product(gradient.T, own)
        of_bias = torch.stack([gradient.sum(0) for gradient in gradients]).sum(0) if needs_bias else None
        own = of_weight.finished() if ctx.gathered is None else None
        return None if own is None else own.to(weight.dtype), of_bias, *of_states


class _Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def late(weight: Float[Tensor, "V D"]) -> Float[Tensor, "V D"]:
    """The same weight, whose gradient comes after those of all that is made of the weight itself from here on.

    Autograd adds a dense gradient to a sparse one in place, but copies where the dense one is there first.
    """
    alias: Tensor = _Late.apply(weight) if torch.is_grad_enabled() and weight.requires_grad else weight  # type: ignore[no-untyped-call]
    return alias


def products(
    weight: Float[Tensor, "V D"], bias: Float[Tensor, "V"] | None, states: Sequence[Float[Tensor, "_R D"]]
) -> list[Float[Tensor, "_R V"]]:
    """``states[k] @ weight.T + bias`` for every k, each in a tensor of its own that may be changed in place.

    Without gradients it is one product, which reads the weight once. With them, the weight's gradient is one tensor
    that all products are added to.

    >>> weight = torch.arange(6.0).reshape(3, 2)
    >>> [scores.tolist() for scores in products(weight, None, [torch.ones(1, 2), torch.zeros(1, 2)])]
    [[[1.0, 5.0, 9.0]], [[0.0, 0.0, 0.0]]]
    """
    wanted = (weight, *states) if bias is None else (weight, bias, *states)
    learned = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in wanted)
    if learned and chooses_precision(weight.device):
        return [F.linear(own, weight, bias) for own in states]
    if learned:
        return list(_Products.apply(weight, bias, *states))  # type: ignore[no-untyped-call]
    stacked = states[0] if len(states) == 1 else torch.cat(list(states))
    return list(torch.split(F.linear(stacked, weight, bias), [len(own) for own in states]))
