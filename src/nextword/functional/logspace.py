"""Sums of probabilities in log space, safe where a set is empty."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nextword.functional.products.in_pieces import only_torch_operations


def masked_logsumexp(scores: Float[Tensor, "*rows S"], mask: Bool[Tensor, "*rows S"]) -> Float[Tensor, "*rows"]:
    """``log sum exp(scores)`` over the entries where ``mask`` is true; ``-inf`` with zero gradient where none is.

    ``torch.logsumexp`` of a row of ``-inf`` has the value ``-inf`` but the gradient NaN, and ``torch.where`` lets that
    NaN through (NaN * 0). So empty rows are computed on zeros and replaced afterwards.

    >>> scores = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    >>> masked_logsumexp(scores, torch.tensor([[True, True], [False, False]]))
    tensor([0.6931,   -inf])
    """
    if scores.shape[-1] == 0:
        return scores.new_full(scores.shape[:-1], -torch.inf)
    empty = ~mask.any(-1)
    safe = scores.masked_fill(~mask, -torch.inf).masked_fill(empty.unsqueeze(-1), 0.0)
    return torch.logsumexp(safe, -1).masked_fill(empty, -torch.inf)


def logsumexp_finite(scores: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows"]:
    """``log sum exp`` over the entries that are not ``-inf``; the same guarantee as ``masked_logsumexp``."""
    return masked_logsumexp(scores, scores != -torch.inf)


def log_add_exp(a: Float[Tensor, "*rows"], b: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """``log(exp(a) + exp(b))``, with zero gradient instead of NaN where both are ``-inf``."""
    if not torch.is_grad_enabled():
        return torch.logaddexp(a, b)
    nothing = (a == -torch.inf) & (b == -torch.inf)
    total = torch.logaddexp(a.masked_fill(nothing, 0.0), b.masked_fill(nothing, 0.0))
    return total.masked_fill(nothing, -torch.inf)


def log_add_exp_(a: Float[Tensor, "*rows"], b: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """The same, in the memory of ``a`` where no gradient is made."""
    return torch.logaddexp(a, b, out=a) if _may_be_changed(a) else log_add_exp(a, b)


def shift_rows_(scores: Float[Tensor, "N V"], shift: Float[Tensor, "N"]) -> Float[Tensor, "N V"]:
    """``scores + shift[:, None]``, in the memory of ``scores`` where no gradient is made."""
    return scores.add_(shift[:, None]) if _may_be_changed(scores) else scores + shift[:, None]


def _may_be_changed(scores: Tensor) -> bool:
    return not torch.is_grad_enabled() and not only_torch_operations(scores.device)


def at_least_float32(scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Half precision scores as float32, wider ones as they are; no sum of exponentials is taken in less."""
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()
