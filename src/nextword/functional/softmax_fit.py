"""Fitting a linear softmax to given distributions: multinomial regression with soft targets."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nextword.functional.logspace import at_least_float32

_RIDGE = 1e-4
"""Weight of the squared weights, in nats at unit variance: ties down directions in which the states hardly vary."""

_ITERATIONS = 60


@torch.enable_grad()
def fitted_softmax(states: Float[Tensor, "N D"], log_targets: Float[Tensor, "N C"]) -> Float[Tensor, "C D"]:
    """Weights U with ``softmax(U h)`` as close as possible to the targets: the least mean divergence KL(target || fit).

    Convex, so where it starts does not matter: least squares on the log-probabilities is near already, L-BFGS on
    whitened states does the rest.

    Args:
        states: The states h.
        log_targets: Log-probabilities of C classes at each.
    """
    inputs = at_least_float32(states.detach())
    targets = at_least_float32(log_targets.detach()).to(inputs.dtype)
    # whitened, all directions are alike to the optimiser; the outlying coordinates of trained models are not otherwise
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
