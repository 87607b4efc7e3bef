"""Graphs that are traversed backwards once, at once: their gradients may take the place of what was kept for them.

Within such a block the gradient of a weight that every product reads is one tensor to which each product adds its part;
a new (V, D) tensor for each costs more than the addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass
class GradientSum:
    """The gradient of one tensor, added up in place, in single precision at least."""

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


_running: ContextVar[dict[int, GradientSum] | None] = ContextVar("single_pass", default=None)


@contextmanager
def single_pass(weights: Sequence[Tensor]) -> Iterator[list[GradientSum]]:
    """Whoever opens this block traverses every graph recorded in it at most once, and keeps nothing of it.

    Products with these weights add the weights' gradients here, and give none to autograd; whatever else depends on a
    weight has its gradient from autograd, to be added by the caller.
    """
    sums = [GradientSum() for _ in weights]
    token = _running.set({id(weight): own for weight, own in zip(weights, sums, strict=True)})
    try:
        yield sums
    finally:
        _running.reset(token)


def is_single_pass() -> bool:
    """Whether the graph that is being recorded will be traversed once only.

    To be asked in a forward pass, as :func:`gradient_sum_of`: on an accelerator the backward pass has another thread.
    """
    return not torch.compiler.is_compiling() and _running.get() is not None


def gradient_sum_of(weight: Tensor) -> GradientSum | None:
    """Where the gradient of this weight is gathered, if it is."""
    if torch.compiler.is_compiling():  # a graph cannot read the variable, and none is recorded within such a block
        return None
    return (_running.get() or {}).get(id(weight))
