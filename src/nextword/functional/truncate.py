"""Cutting a distribution down to its most probable outcomes: top-k and nucleus."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def truncated(
    log_probs: Float[Tensor, "N V"], top_k: int | None = None, top_p: float | None = None
) -> Float[Tensor, "N V"]:
    """Log-probabilities with ``-inf`` in place of what is cut away; not normalised again.

    Args:
        log_probs: Log-probabilities, in any order.
        top_k: Keep the ``top_k`` most probable outcomes; of equal ones those that a stable sort puts first.
        top_p: Of these, keep the fewest that together have at least this share of their probability (nucleus).

    >>> import torch
    >>> truncated(torch.tensor([[0.5, 0.3, 0.2]]).log(), top_p=0.6).exp()
    tensor([[0.5000, 0.3000, 0.0000]])
    """
    if top_k is None and (top_p is None or top_p >= 1):
        return log_probs
    ordered, order = torch.sort(log_probs, dim=-1, descending=True, stable=True)
    if top_k is not None:
        ordered[:, top_k:] = -torch.inf
    if top_p is not None and top_p < 1:
        # in float64: in float32 the sum over a large vocabulary passes top_p too early
        probs = ordered.double().softmax(-1)
        ordered = ordered.masked_fill(probs.cumsum(-1) - probs >= top_p, -torch.inf)
    return torch.empty_like(ordered).scatter_(1, order, ordered)


def expect_truncation(where: str, top_k: int | None, top_p: float | None) -> None:
    """Raises ValueError for a ``top_k`` below 1 or a ``top_p`` outside 0 < top_p <= 1."""
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"{where}: top_p must be more than 0 and at most 1 ({top_p} given)")
    if top_k is not None and top_k < 1:
        raise ValueError(f"{where}: top_k must be at least 1 ({top_k} given); None draws among all tokens")
