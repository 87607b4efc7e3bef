"""The gradient of a weight that every product reads, gathered in one tensor over the chunks of a sum.

Autograd would make a new (V, D) tensor for each product and add them up; making it costs more than the addition. Here
each product hands over the two factors of its part, and they are multiplied into one tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Factors(NamedTuple):
    """A part of the gradient of a weight (V, D), as the two factors whose product it is."""

    left: Float[Tensor, "_K N"]
    """Gradients of scores; may be sparse."""
    right: Float[Tensor, "N D"]
    """States."""
    blocks: list[tuple[slice, Int[Tensor, "_R"]]] | None = None
    """Slices of the rows of ``left``, each with the rows of the weight that they belong to, no row twice; None where
    the rows of ``left`` are those of the weight in order."""

    @property
    def numel(self) -> int:
        """How many numbers both factors have."""
        return (2 * self.left._nnz() if self.left.is_sparse else self.left.numel()) + self.right.numel()

    def add_to_(self, total: Tensor | None, shape: torch.Size) -> Tensor:
        """Adds the product to ``total`` (V, D) in place, and returns it; a new tensor where ``total`` is None."""
        dtype = torch.promote_types(self.left.dtype, torch.float32)
        if self.blocks is None:
            if total is None:
                return (self.left @ self.right).to(dtype)
            if total.dtype == self.left.dtype:
                return total.addmm_(self.left, self.right)
            return total.add_(self.left @ self.right)
        if total is None:
            total = self.right.new_zeros(shape, dtype=dtype)
        for rows, weight_rows in self.blocks:
            block = Factors(self.left[rows], self.right)
            total.index_copy_(0, weight_rows, block.add_to_(total.index_select(0, weight_rows), shape))
        return total


class GradientCollector:
    """Adds up the gradient of one weight, in single precision at least.

    Factors are kept as they are while they take less memory than the gradient itself.

    Args:
        weight: The weight (V, D).
    """

    def __init__(self, weight: Tensor) -> None:
        self._shape, self._dtype = weight.shape, weight.dtype
        self._total: Tensor | None = None
        self._factors: list[Factors] = []

    def add(self, gradient: Tensor, *, shared: bool = False) -> None:
        """Adds a gradient that autograd made.

        Args:
            gradient: Of the weight's shape.
            shared: Whether it is read elsewhere too, so that nothing may be added to it in place.
        """
        if self._total is not None:
            self._total.add_(gradient)
        else:
            dtype = torch.promote_types(gradient.dtype, torch.float32)
            self._total = gradient.to(dtype, copy=shared or gradient.is_sparse or not gradient.is_contiguous())

    def add_factors(self, factors: Factors) -> None:
        """Adds the product of two factors, to be multiplied later."""
        # detached: their graph leads back to this collector, and Python does not collect circles through torch's graphs
        left, right, blocks = factors
        self._factors.append(Factors(left.detach(), right.detach(), blocks))

    @torch.no_grad()
    def compact(self, fraction_done: float) -> None:
        """Multiplies the factors, unless all of them together will take less memory than the gradient.

        Args:
            fraction_done: Fraction of all rows whose parts are here; at 1 a gradient that is multiplied takes the
                precision of the weight.
        """
        if self._total is None and sum(part.numel for part in self._factors) <= self._shape.numel() * fraction_done:
            return
        total = self.result()
        self._total = total.to(self._dtype) if total is not None and fraction_done == 1 else total

    @torch.no_grad()
    def result(self) -> Tensor | None:
        """The gradient (V, D); None where nothing was added."""
        # the first product makes the tensor that all others are added to, which is dear where it has few rows
        self._factors.sort(key=lambda part: part.numel)
        while self._factors:
            self._total = self._factors.pop().add_to_(self._total, self._shape)
        return self._total


class SinglePass:
    """A graph that is traversed backwards once, right after it is recorded, and then dropped.

    The caller who makes one promises that, and hands it to the functions that record the graph. These may then

    - write gradients over what they saved for the backward pass, instead of into new (N, V) tensors;
    - add the gradient of a weight to its collector, and return none to autograd.

    A function that is not handed one gives its gradients to autograd as usual, and the caller adds them.

    Args:
        weights: Those whose gradients are collected.
    """

    def __init__(self, weights: Sequence[Tensor] = ()) -> None:
        self._weights = list(weights)
        self.collectors = [GradientCollector(weight) for weight in weights]
        """One for each weight."""

    def collector(self, weight: Tensor) -> GradientCollector | None:
        """Where the gradient of this very tensor is collected; None where autograd is to give it."""
        pairs = zip(self._weights, self.collectors, strict=True)
        return next((collector for tensor, collector in pairs if tensor is weight), None)
