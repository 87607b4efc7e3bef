"""The gradient of a weight that every product reads, accumulated in one tensor over the chunks of a sum.

Autograd would make a new (V, D) tensor for each product and add up these tensors; making a tensor costs more than the
addition. Here each product passes the two factors of its gradient to a collector, which adds their product to one
tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


class Factors(NamedTuple):
    """A part of the gradient of a weight (V, D), as the two factors whose product it is."""

    left: Float[Tensor, "_K N"]
    """Gradients of the scores (may be sparse)."""
    right: Float[Tensor, "N D"]
    """States."""
    blocks: list[tuple[slice, Int[Tensor, "_R"]]] | None = None
    """Slices of the rows of ``left``, each with the rows of the weight that they belong to, no row twice; None where
    the rows of ``left`` are those of the weight in order."""

    @property
    def numel(self) -> int:
        """Number of elements of both factors."""
        return (2 * self.left._nnz() if self.left.is_sparse else self.left.numel()) + self.right.numel()

    def add_to_(self, total: Tensor | None, shape: torch.Size) -> Tensor:
        """Adds the factors' product to ``total`` (V, D) in place and returns ``total``; None: returns a new tensor."""
        dtype = torch.promote_types(self.left.dtype, torch.float32)
        if self.left.is_sparse and self.left.dtype != dtype:  # CUDA has no sparse product in half precision
            return Factors(self.left.to(dtype), self.right.to(dtype), self.blocks).add_to_(total, shape)
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
    """Adds up the gradient of one weight (V, D), in float32 or float64.

    Factors are kept as they are while they take less memory than the gradient itself.
    """

    def __init__(self, weight: Tensor) -> None:
        self._shape, self._dtype = weight.shape, weight.dtype
        self._total: Tensor | None = None
        self._factors: list[Factors] = []

    def add(self, gradient: Tensor, *, shared: bool = False) -> None:
        """Adds a gradient made by autograd, which is copied first if it is also read elsewhere (``shared``)."""
        if self._total is not None:
            self._total.add_(gradient)
        else:
            dtype = torch.promote_types(gradient.dtype, torch.float32)
            self._total = gradient.to(dtype, copy=shared or gradient.is_sparse or not gradient.is_contiguous())

    def add_factors(self, factors: Factors) -> None:
        """Adds the product of two factors, to be multiplied later."""
        # detached, because their graph leads back to this collector, and Python cannot free cycles through torch graphs
        left, right, blocks = factors
        self._factors.append(Factors(left.detach(), right.detach(), blocks))

    @torch.no_grad()
    def compact(self, fraction_done: float) -> None:
        """Multiplies the factors, unless those of all rows are expected to take less memory than the gradient.

        ``fraction_done`` is the share of rows added so far. At 1, a multiplied gradient gets the precision of the
        weight.
        """
        if self._total is None and sum(part.numel for part in self._factors) <= self._shape.numel() * fraction_done:
            return
        total = self.result()
        self._total = total.to(self._dtype) if total is not None and fraction_done == 1 else total

    @torch.no_grad()
    def result(self) -> Tensor | None:
        """The gradient (V, D); None if nothing was added."""
        # the first product makes the tensor to which all others are added; this is expensive if it has few rows
        self._factors.sort(key=lambda part: part.numel)
        while self._factors:
            self._total = self._factors.pop().add_to_(self._total, self._shape)
        return self._total

    def addresses(self) -> list[int]:
        """Addresses of the storages of all tensors held."""
        held = [part.left for part in self._factors] + ([] if self._total is None else [self._total])
        return [tensor.untyped_storage().data_ptr() for tensor in held if not tensor.is_sparse]


_PAGE, _LINE = 4096, 64
_LONG_ROW = 2**16


def row_width(columns: int, element_size: int) -> int:
    """Number of elements to allocate per row of dense scores.

    If a row takes a whole number of memory pages, as with 49,152 or 262,144 tokens, all rows begin in the same few
    lines of the processor's cache, and a product that writes many rows at once waits for these lines. So each long row
    begins four cache lines later within its page than the row before it.

    >>> row_width(300, 4), row_width(262_144, 4)
    (300, 262208)
    """
    if columns * element_size < _LONG_ROW:
        return columns
    return (-(-columns * element_size // _PAGE) * _PAGE + 4 * _LINE) // element_size


class FusedBackward:
    """A graph that is traversed backwards once, right after it is recorded, and then dropped.

    The caller guarantees this, and passes the object to the functions that record the graph. These may then

    - write gradients over what they saved for the backward pass, instead of into new (N, V) tensors;
    - write scores into memory that a graph before this one used;
    - add the gradient of a weight to its collector, and return None to autograd.

    Functions without such an object return their gradients to autograd as usual, and the caller adds them.
    """

    def __init__(self, weights: Sequence[Tensor] = ()) -> None:
        self._weights = list(weights)
        self.collectors = [GradientCollector(weight) for weight in weights]
        """The collectors, one for each weight."""
        self._used: list[Tensor] = []
        self._unused: list[Tensor] = []

    def empty_scores(self, states: Float[Tensor, "N D"], columns: int) -> Float[Tensor, "N V"]:
        """Memory for the scores (N, ``columns``) of ``states``, to be written in this graph, with gaps between rows."""
        width = row_width(columns, states.element_size())
        wanted = len(states) * width
        fits = [block for block in self._unused if block.dtype == states.dtype and block.numel() >= wanted]
        block = fits[0] if fits else states.new_empty(wanted)
        self._unused = [other for other in self._unused if other is not block]
        self._used.append(block)
        return block[:wanted].view(len(states), width)[:, :columns]

    def next_graph(self) -> None:
        """Marks the graph as traversed; the next one may reuse its memory, except for tensors that collectors hold."""
        held = {address for collector in self.collectors for address in collector.addresses()}
        self._unused = [block for block in self._used if block.untyped_storage().data_ptr() not in held]
        self._used = []

    def collector(self, weight: Tensor) -> GradientCollector | None:
        """The collector for the gradient of ``weight``; None if autograd gets this gradient."""
        pairs = zip(self._weights, self.collectors, strict=True)
        return next((collector for tensor, collector in pairs if tensor is weight), None)


# -- A weight's gradient is made last, after the backward pass has freed the activations.
#
# The gradient of an output embedding (V, D) is large, and autograd asks for it first, while all activations of the
# backbone are in memory. The gradient's factors (gradients of N scores, and N states) are smaller wherever N < D. So
# the collector keeps the factors until autograd has done everything else, and multiplies them then.
#
# torch has no public way to do this, because autograd passes only tensors between the nodes of its graph, and a
# collector is not a tensor. So the collector is stored at the node of the weight, as an attribute (``ctx.pending``),
# which is freed with the graph. When autograd reaches this node, the node takes the collector from there. Two backward
# passes may go through one graph, even at the same time in two threads, and one of them may not reach the node.
# Therefore the collector is stored under the number of the backward pass, ``torch._C._current_graph_task_id()``. This
# function is private, but torch 2.13, the oldest version that we support, uses it itself to tell passes apart
# (``torch/autograd/graph.py``, ``torch/utils/checkpoint.py``).
#
# If a later torch removes this function, ``defer_gradient`` returns a view of the weight. Factors are then multiplied
# immediately, which gives the same numbers but takes up to (V, D) more memory while activations are in memory. A
# compiled pass does the same, because its graph has other nodes. One test runs without the function, and another test
# fails if torch no longer has it and says what to do.


def defer_gradient(weight: Float[Tensor, "V D"]) -> Float[Tensor, "V D"]:
    """An alias of ``weight``, whose gradient autograd makes after those of all operations that follow this call.

    Autograd processes operations in the reverse order of recording. So call this function before the forward pass whose
    activations should be freed first, and use the alias in the matrix products with ``weight``. If the gradient cannot
    be deferred, the result is still an alias, because a tied weight is also the input embedding: a gradient with
    respect to ``weight`` itself would include the path through the states. If no gradient is needed, the result is
    ``weight`` itself.
    """
    if not (torch.is_grad_enabled() and weight.requires_grad):
        return weight
    if torch.compiler.is_compiling() or _backward_pass() is None:
        return weight.view_as(weight)
    alias: Tensor = _Deferred.apply(weight)  # type: ignore[no-untyped-call]
    return alias


def deliver(collector: GradientCollector, weight: Tensor, scale: Tensor) -> Tensor | None:
    """The gradient of ``weight`` within a backward pass: the collected gradient, times ``scale``.

    None if ``weight`` comes from ``defer_gradient``, which makes the gradient later. The collector is used up.
    """
    pending = getattr(weight.grad_fn, "pending", None)
    if pending is None:
        return _multiplied(collector, scale, weight.dtype)
    pending.setdefault(_backward_pass(), []).append((collector, scale))
    return None


class _Deferred(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.dtype, ctx.pending = weight.dtype, {}
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Tensor | None:
        # another pass, which did not ask for the weight's gradient, may have left collectors; they are not of this pass
        pending = ctx.pending.pop(_backward_pass(), [])
        while pending:
            collector, scale = pending.pop()
            part = _multiplied(collector, scale, ctx.dtype)
            if part is not None:
                gradient = part if gradient is None else part.add_(gradient)
        return gradient


def _multiplied(collector: GradientCollector, scale: Tensor, dtype: torch.dtype) -> Tensor | None:
    total = collector.result()
    return None if total is None else total.to(dtype).mul_(scale)


def _backward_pass() -> int | None:
    """Number of the backward pass that is running, -1 outside of a pass; None if torch does not provide it."""
    number = getattr(torch._C, "_current_graph_task_id", None)
    return None if number is None else int(number())


# -- Backward passes without a derivative: create_graph=True raises an error.


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a backward pass so that ``create_graph=True`` raises an error.

    torch's ``once_differentiable`` alone raises no error if the incoming gradient is a constant, as for a loss. Second
    derivatives would then lack the part that depends on saved tensors, without a warning.
    """
    once = once_differentiable(backward)

    @wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "second derivatives (create_graph=True): a head's loss and log_prob have first ones only; use "
                "log_probs(), which has both for heads without partitions and pointers"
            )
        return once(ctx, *gradients)

    return checked
