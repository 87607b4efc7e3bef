"""Functions that overwrite their first argument, dense scores (N, V), to avoid a second tensor of that size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nextword.functional.products import only_torch_operations
from nextword.functional.vocab_shard import ALL_COLUMNS, VocabShard
from nextword.functional.weight_gradient import FusedBackward, first_order


def softmax_at_(
    scores: Float[Tensor, "N V"],
    ids: Int[Tensor, "N K"],
    fused_backward: FusedBackward | None = None,
    columns: VocabShard = ALL_COLUMNS,
) -> tuple[Float[Tensor, "N K"], Float[Tensor, "N"], Float[Tensor, "N"]]:
    """The scores of K tokens per row, and the row's log-sum-exp. ``scores`` is overwritten with exponentials.

    Both results are relative to the row's largest score, the peak.

    Args:
        scores: Scores of all tokens, which are not used elsewhere; each row has a finite score.
        ids: K tokens per row.
        fused_backward: If given, the gradient overwrites the exponentials; None: the backward pass makes one more (N,
            V) tensor.
        columns: Tokens to which the columns of ``scores`` belong: all, or a shard of them.

    Returns:
        Scores of the tokens minus the peak; log-sum-exp minus the peak; the peak, the row's largest score, which has no
        gradient because final results do not depend on it.

    >>> at_ids, total, peak = softmax_at_(torch.tensor([[100.0, 101.0, 102.0]]), torch.tensor([[2, 0]]))
    >>> at_ids, total, peak
    (tensor([[ 0., -2.]]), tensor([0.4076]), tensor([102.]))
    """
    if torch.is_grad_enabled() and scores.requires_grad:
        at_ids, total, peak, _ = _SoftmaxAt.apply(scores, ids, fused_backward is not None, columns)  # type: ignore[no-untyped-call]
        return at_ids, total, peak
    at_ids, mass, peak = _exponentials_(scores, ids, columns)
    return at_ids, mass.log(), peak


def _exponentials_(scores: Tensor, ids: Tensor, columns: VocabShard) -> tuple[Tensor, Tensor, Tensor]:
    peak = columns.peak(scores)
    at_ids = columns.gather(scores, ids) - peak
    return at_ids, columns.total(scores.sub_(peak).exp_().sum(-1)), peak[:, 0]


class _SoftmaxAt(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, ids: Tensor, traversed_once: bool, columns: VocabShard
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        at_ids, mass, peak = _exponentials_(scores, ids, columns)
        ctx.mark_dirty(scores)
        ctx.mark_non_differentiable(peak)
        ctx.set_materialize_grads(False)  # otherwise autograd would make (N, V) zeros for the overwritten scores
        ctx.save_for_backward(scores, ids, mass)
        ctx.traversed_once, ctx.columns = traversed_once, columns
        return at_ids, mass.log(), peak, scores

    @staticmethod
    @first_order
    def backward(ctx: Any, of_ids: Tensor | None, of_total: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        exponentials, ids, mass = ctx.saved_tensors
        share = (torch.zeros_like(mass) if of_total is None else of_total / mass)[:, None]
        gradient = exponentials.mul_(share) if ctx.traversed_once else exponentials * share
        return gradient if of_ids is None else ctx.columns.scatter_add_(gradient, ids, of_ids), None, None, None


_IN_CACHE = 1 << 20
"""Number of elements that stay in the processor's cache between two passes over them."""


def log_softmax_(scores: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
    """``scores.log_softmax(-1)``, in place if possible; ``scores`` must not be used elsewhere.

    On a CPU, allocating a second tensor costs several times the computation. On a GPU, with gradients, under
    autocast or a compiler, the result is a new tensor. Rows computed in place sum to one more exactly than torch's own,
    whose sum over 49,152 tokens is off by 1.6e-5 in single precision.

    >>> log_softmax_(torch.tensor([[0.0, 0.0]]))
    tensor([[-0.6931, -0.6931]])
    """
    differentiable = torch.is_grad_enabled() and scores.requires_grad
    if differentiable or scores.device.type != "cpu" or only_torch_operations(scores.device):
        return scores.log_softmax(-1)
    for part in torch.split(scores, max(1, _IN_CACHE // max(1, scores.shape[-1]))):
        part -= part.amax(-1, keepdim=True)
        part -= part.exp().sum(-1, keepdim=True).log()  # torch.sum adds pairwise, torch's log_softmax does not
    return scores


def overwrite_(
    scores: Float[Tensor, "N V"],
    ids: Int[Tensor, "N K"],
    values: Float[Tensor, "N K"],
    present: Bool[Tensor, "N K"],
    fused_backward: FusedBackward | None = None,
) -> Float[Tensor, "N V"]:
    """Overwrites the scores of ``ids`` with ``values`` where ``present`` is True. Changes and returns ``scores``.

    The overwritten scores get no gradient.

    Args:
        scores: Scores of all tokens, which are not used elsewhere.
        ids: Tokens to overwrite. If a token is present twice in a row, its values must be equal.
        values: New scores.
        present: True for tokens to overwrite.
        fused_backward: If given, the gradient of the result is turned into that of ``scores`` in place; None: the
            backward pass makes one more (N, V) tensor.

    >>> overwrite_(torch.zeros(1, 3), torch.tensor([[2, 0]]), torch.tensor([[5.0, 7.0]]), torch.tensor([[True, False]]))
    tensor([[0., 0., 5.]])
    """
    if ids.shape[1] == 0:
        return scores
    values = values.to(scores.dtype)
    if torch.is_grad_enabled() and (scores.requires_grad or values.requires_grad):
        traversed_once = fused_backward is not None
        changed: Tensor = _Overwrite.apply(scores, ids, values, present, traversed_once)  # type: ignore[no-untyped-call]
        return changed
    return _write_(scores, ids, values, present)


def _write_(target: Tensor, ids: Tensor, values: Tensor, present: Tensor) -> Tensor:
    # Every column of a scatter writes a value. An absent column repeats the value that the first present column writes,
    # or the old value if its row has no present column. So no shape depends on the number of present columns, and a
    # step can be compiled.
    first = present.int().argmax(1, keepdim=True)
    position = ids.gather(1, first)
    value = torch.where(present.any(1, keepdim=True), values.gather(1, first), target.gather(1, position))
    return target.scatter_(1, torch.where(present, ids, position), torch.where(present, values, value))


class _Overwrite(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, ids: Tensor, values: Tensor, present: Tensor, traversed_once: bool) -> Tensor:
        ctx.mark_dirty(scores)
        ctx.save_for_backward(ids, present)
        ctx.traversed_once = traversed_once
        return _write_(scores, ids, values, present)

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        ids, present = ctx.saved_tensors
        needs_scores, _, needs_values, *_ = ctx.needs_input_grad
        of_values = gradient.gather(1, ids).masked_fill(~present, 0.0) if needs_values else None
        of_scores = None
        if needs_scores:
            zeros = torch.zeros_like(ids, dtype=gradient.dtype)
            of_scores = _write_(gradient if ctx.traversed_once else gradient.clone(), ids, zeros, present)
        return of_scores, None, of_values, None, None


# -- Chunks that are computed again in the backward pass, for functions with a result at each position.


def concatenate_chunks(compute: Callable[[slice], Tensor], chunks: list[slice], *, recompute: bool = True) -> Tensor:
    """Calls ``compute`` for every chunk and concatenates the results along the rows.

    With ``recompute`` and more than one chunk, intermediate values are freed after each chunk and recomputed in the
    backward pass, so only results stay in memory. Other tensors that ``compute`` uses get their gradients as usual.

    Args:
        compute: Function from a slice of the rows to a tensor with these rows as its first dimension. (With
            ``recompute`` it may be shorter, such as a sum over rows.)
        chunks: One or more slices, from ``row_chunks``.
        recompute: False if the result is as large as the intermediate values. Without gradients each chunk is then
            written into the result before the next one is computed.
    """
    if len(chunks) == 1:
        return compute(chunks[0])
    if recompute and torch.is_grad_enabled():
        # an output layer may use random numbers (LoRA's dropout), which must be the same in the second computation
        return torch.cat([checkpoint(compute, chunk, use_reentrant=False) for chunk in chunks])
    if recompute or torch.is_grad_enabled():
        return torch.cat([compute(chunk) for chunk in chunks])
    part = compute(chunks[0])
    whole = part.new_empty(chunks[-1].stop, *part.shape[1:])
    whole[chunks[0]] = part
    del part  # frees it before the next part is made
    for chunk in chunks[1:]:
        whole[chunk] = compute(chunk)
    return whole
