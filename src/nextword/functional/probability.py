"""Sums of probabilities as logarithms, also of empty sets; truncation, sampling, and the fit of a softmax."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.products import only_torch_operations


def masked_logsumexp(scores: Float[Tensor, "*rows S"], mask: Bool[Tensor, "*rows S"]) -> Float[Tensor, "*rows"]:
    """``log sum exp(scores)`` over the entries where ``mask`` is true; ``-inf`` with zero gradient if there are none.

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
    """``log sum exp`` over the entries that are not ``-inf``; ``-inf`` with zero gradient if there are none."""
    return masked_logsumexp(scores, scores != -torch.inf)


def log_add_exp(a: Float[Tensor, "*rows"], b: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """``log(exp(a) + exp(b))``, with zero gradient instead of NaN if both are ``-inf``."""
    if not torch.is_grad_enabled():
        return torch.logaddexp(a, b)
    nothing = (a == -torch.inf) & (b == -torch.inf)
    total = torch.logaddexp(a.masked_fill(nothing, 0.0), b.masked_fill(nothing, 0.0))
    return total.masked_fill(nothing, -torch.inf)


def log_add_exp_(a: Float[Tensor, "*rows"], b: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """``log(exp(a) + exp(b))``, in place in ``a`` if no gradient is needed."""
    return torch.logaddexp(a, b, out=a) if _may_be_changed(a) else log_add_exp(a, b)


def shift_rows_(scores: Float[Tensor, "N V"], shift: Float[Tensor, "N"]) -> Float[Tensor, "N V"]:
    """``scores + shift[:, None]``, in place if no gradient is needed."""
    return scores.add_(shift[:, None]) if _may_be_changed(scores) else scores + shift[:, None]


def _may_be_changed(scores: Tensor) -> bool:
    return not torch.is_grad_enabled() and not only_torch_operations(scores.device)


def at_least_float32(scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Converts half-precision scores to float32; sums of exponentials need at least this precision."""
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


# -- The largest of many numbers.

_BLOCK = 64
"""Number of columns per block on a CPU; 32 and 128 are slower (50,257 columns)."""


def top_k(scores: Float[Tensor, "N V"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """Values and columns of the ``k`` largest numbers of each row, in decreasing order, as ``torch.topk``.

    On a CPU torch's function takes as long as three passes. The ``k`` largest numbers are in the ``k`` blocks of
    columns with the largest maxima, so one pass finds these blocks, and only they are sorted.

    >>> top_k(torch.tensor([[1.0, 3.0, 2.0]]), 2)
    (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    blocks = scores.shape[1] // _BLOCK
    if k >= blocks or scores.device.type != "cpu" or torch.compiler.is_compiling():
        best = scores.topk(k)
        return best.values, best.indices
    whole = blocks * _BLOCK
    chosen = scores[:, :whole].reshape(len(scores), blocks, _BLOCK).amax(-1).topk(k).indices
    inside = (chosen[:, :, None] * _BLOCK + torch.arange(_BLOCK)).flatten(1)
    columns = torch.cat([inside, torch.arange(whole, scores.shape[1]).expand(len(scores), -1)], 1)
    best = scores.gather(1, columns).topk(k)
    return best.values, columns.gather(1, best.indices)


# -- Cutting a distribution down to its most probable outcomes: top-k and nucleus.


def truncated(
    log_probs: Float[Tensor, "N V"], top_k: int | None = None, top_p: float | None = None
) -> Float[Tensor, "N V"]:
    """Truncates log-probabilities by top-k and top-p: removed outcomes get ``-inf``; the result is not renormalised.

    Args:
        log_probs: Log-probabilities of the outcomes, which need not be sorted.
        top_k: Number of most probable outcomes to keep; of equal ones, the first.
        top_p: The fewest most probable outcomes that together have at least this share of the probability are kept
            (nucleus).

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
        raise ValueError(f"{where}: top_k must be at least 1 ({top_k} given); give None to sample from all tokens")


# -- Sampling by inverting a cumulative distribution: the same random number always gives the same token.


def inverse_cumulative(cumulative: Float[Tensor, "B V"], uniform: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """First index of each row where ``cumulative`` exceeds ``uniform`` times the row's last number.

    An index with probability 0 is never returned.

    >>> inverse_cumulative(torch.tensor([[0.0, 0.3, 0.3, 1.0]] * 3), torch.tensor([0.0, 0.29, 0.3]))
    tensor([1, 1, 3])
    """
    thresholds = uniform.to(cumulative)[:, None] * cumulative[:, -1:]
    positions = torch.searchsorted(cumulative, thresholds, right=True)[:, 0]
    return positions.clamp(max=cumulative.shape[1] - 1)


def drawn_at(scores: Float[Tensor, "B V"], uniform: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """One token per row, sampled from the softmax of ``scores``; ``uniform`` are the random numbers, in [0, 1).

    Sums are in double precision, because rounding in single precision would select wrong tokens for some numbers.
    """
    return inverse_cumulative(scores.double().softmax(-1).cumsum(-1), uniform.to(scores.device))


# -- Fitting a linear softmax to given distributions: multinomial regression with soft targets.

_RIDGE = 1e-4
"""Weight of the L2 penalty, in nats at unit variance; it fixes directions in which the states hardly vary."""

_ITERATIONS = 60


@torch.enable_grad()
def fitted_softmax(states: Float[Tensor, "N D"], log_targets: Float[Tensor, "N C"]) -> Float[Tensor, "C D"]:
    """Weights U that minimise the mean over ``states`` h of KL(target || ``softmax(U h)``), with a small L2 penalty.

    The problem is convex: L-BFGS on whitened states starts from least squares on the log-probabilities.
    """
    inputs = at_least_float32(states.detach())
    targets = at_least_float32(log_targets.detach()).to(inputs.dtype)
    # whitening gives all directions the same scale; trained models have some coordinates with much larger values
    covariance = inputs.T @ inputs / len(inputs)
    level = covariance.diagonal().mean()
    values, vectors = torch.linalg.eigh(covariance + 1e-6 * level * torch.eye(len(covariance)).to(covariance))
    whiten = vectors / values.clamp_min(1e-6 * level).sqrt()
    white = inputs @ whiten
    centred = targets - targets.mean(-1, keepdim=True)
    weights = (white.T @ centred / len(white) / (1 + _RIDGE)).requires_grad_()
    optimizer = torch.optim.LBFGS([weights], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")
    probs = targets.exp()

    def divergence() -> Any:
        optimizer.zero_grad()
        fit = (white @ weights).log_softmax(-1)
        loss = (probs * (targets - fit)).sum(-1).mean() + _RIDGE / 2 * weights.square().sum()
        torch.autograd.backward(loss)
        return loss

    optimizer.step(divergence)  # type: ignore[no-untyped-call]
    return torch.einsum("de,ec->cd", whiten, weights.detach()).to(states.dtype)
