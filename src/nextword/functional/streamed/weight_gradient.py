"""Graphs that are traversed backwards once, at once: their gradients may take the place of what was kept for them.

Within such a block the gradient of a weight that every product reads is one tensor to which each product adds its part;
a new (V, D) tensor for each costs more than the addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Product(NamedTuple):
    """A part of the gradient of a weight (V, D) that is not multiplied yet."""

    left: Float[Tensor, "_K N"]
    """Gradients of scores; may be sparse."""
    right: Float[Tensor, "N D"]
    """States."""
    blocks: list[tuple[slice, Int[Tensor, "_R"]]] | None = None
    """Which rows of the weight those of ``left`` belong to, in blocks, no row twice; None for all in order."""

    @property
    def size(self) -> int:
        """Numbers that it keeps."""
        return (2 * self.left._nnz() if self.left.is_sparse else self.left.numel()) + self.right.numel()

    def added_to(self, total: Tensor | None, shape: torch.Size) -> Tensor:
        """``total`` (V, D) with this part; a new tensor of that shape where there is none yet."""
        dtype = torch.promote_types(self.left.dtype, torch.float32)
        if self.blocks is None:
            if total is None:
                return (self.left @ self.right).to(dtype)
            if total.dtype == self.left.dtype:
                return total.addmm_(self.left, self.right)
            return total.add_(self.left @ self.right)
        if total is None:
            total = self.right.new_zeros(shape, dtype=dtype)
        for at, block in self.blocks:
            part = Product(self.left[at], self.right)
            total.index_copy_(0, block, part.added_to(total.index_select(0, block), shape))
        return total


class GradientSum:
    """The gradient of a weight, in single precision at least while it is added up.

    Products wait while they are smaller than what they make.

    Args:
        weight: Whose gradient it is.
    """

    def __init__(self, weight: Tensor) -> None:
        self._shape, self._dtype = weight.shape, weight.dtype
        self._total: Tensor | None = None
        self._waiting: list[Product] = []

    def add(self, gradient: Tensor, *, kept: bool = False) -> None:
        """A part that is made already.

        Args:
            gradient: The part.
            kept: Whether somebody else keeps this tensor, so that nothing may be added to it in place.
        """
        if self._total is not None:
            self._total.add_(gradient)
        else:
            wide = torch.promote_types(gradient.dtype, torch.float32)
            self._total = gradient.to(wide, copy=kept or gradient.is_sparse or not gradient.is_contiguous())

    def add_product(self, part: Product) -> None:
        """A part that may wait."""
        # its tensors know the graph that they came from, which leads back here: a circle that nobody would collect
        left, right, blocks = part
        self._waiting.append(Product(left.detach(), right.detach(), blocks))

    @torch.no_grad()
    def settle(self, done: float) -> None:
        """Multiplies what waits, if it would outgrow the sum itself.

        Args:
            done: Share of all parts that are here; with 1 what is made takes the weight's own precision.
        """
        if self._total is not None or sum(part.size for part in self._waiting) > self._shape.numel() * done:
            total = self.finished()
            self._total = total.to(self._dtype) if total is not None and done == 1 else total

    @torch.no_grad()
    def finished(self) -> Tensor | None:
        """The sum; None where nothing was added."""
        # the first product makes the tensor that all others are added to, which is dear where it has few rows
        self._waiting.sort(key=lambda part: part.size)
        while self._waiting:
            self._total = self._waiting.pop().added_to(self._total, self._shape)
        return self._total


_running: ContextVar[dict[int, GradientSum] | None] = ContextVar("single_pass", default=None)


@contextmanager
def single_pass(weights: Sequence[Tensor]) -> Iterator[list[GradientSum]]:
    """Whoever opens this block traverses every graph recorded in it at most once, and keeps nothing of it.

    Products with these weights add the weights' gradients here, and give none to autograd; whatever else depends on a
    weight has its gradient from autograd, to be added by the caller.
    """
    sums = [GradientSum(weight) for weight in weights]
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
