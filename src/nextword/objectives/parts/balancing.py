"""Weights by how often tokens were seen, and penalties on confidence: the parts that FACE is put together from.

Counts are whole numbers; everything made of them is computed in float64 and has no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution import NextToken
from nextword.heads.context import Layout

_LEAST_ENTROPY = 1e-6
"""Nats below which an entropy that something is divided by counts as this much."""


@dataclass(frozen=True)
class Answers:
    """What a model is asked and what it says: the distribution at N positions and their targets."""

    distribution: NextToken
    targets: Int[Tensor, "N"]

    @cached_property
    @torch.no_grad()
    def predictions(self) -> Int[Tensor, "N"]:
        """The most probable token at each position; computed where somebody asks."""
        return self.distribution.top_k(1)[1][:, 0]


def occurrences(
    tokens: Int[Tensor, "N"], layout: Layout, vocab_size: int, *, start: int | None = None, end: int | None = None
) -> Int[Tensor, "V"]:
    """How often each token occurs.

    Args:
        tokens: One at each position.
        layout: Which row each position belongs to.
        vocab_size: V.
        start: Token that does not count where a row begins with it.
        end: Token that does not count, nor does what follows the first one of a row.
    """
    counted = torch.ones_like(tokens, dtype=torch.bool)
    if start is not None:
        counted &= (tokens != start) | (layout.slot != 0)
    if end is not None:
        ends = tokens.new_zeros(layout.batch_size, layout.width).index_put(
            (layout.row, layout.slot), (tokens == end).long()
        )
        counted &= ends.cumsum(1)[layout.row, layout.slot] == 0
    return torch.bincount(tokens[counted], minlength=vocab_size)


def class_weights(counts: Int[Tensor, "V"]) -> Float[Tensor, "V"]:
    """``1 - f / max f`` divided by its mean over the vocabulary, so that the mean weight is 1.

    The most frequent token has weight 0. Where no token stands out (nothing counted yet, or all alike) all weights
    are 1.

    >>> class_weights(torch.tensor([2, 1, 0, 0]))
    tensor([0.0000, 0.8000, 1.6000, 1.6000], dtype=torch.float64)
    """
    weights = 1 - counts.double() / counts.max().clamp_min(1)
    mean = weights.mean()
    flat = (counts == counts[0]).all()
    return torch.where(flat, 1.0, weights / torch.where(flat, 1.0, mean))


def pre_weights(counts: Int[Tensor, "V"], answers: Answers) -> Float[Tensor, "N"]:
    """Weight of each target's token (FACE, eq. 10)."""
    return class_weights(counts)[answers.targets]


def post_weights(counts: Int[Tensor, "V"], answers: Answers) -> Float[Tensor, "N"]:
    """1, and more where the model says a token that is more frequent than the target, by their difference (eq. 11)."""
    excess = (counts[answers.predictions] - counts[answers.targets]).clamp_min(0)
    return 1 + excess.double() / counts.sum().clamp_min(1)


COUNTED: dict[str, Callable[[Answers], Tensor]] = {
    "output": lambda answers: answers.predictions,
    "gold": lambda answers: answers.targets,
}
"""Which tokens are counted, by the name that the config gives them."""

WEIGHTS: dict[str, Callable[[Tensor, Answers], Tensor]] = {"pre": pre_weights, "post": post_weights}
"""Weights of the positions, by the name that the config gives them."""


@dataclass(frozen=True)
class Confidence:
    """How sure a model is, for penalties.

    Args:
        entropy: Mean entropy of the positions, in nats.
        largest: Entropy of the uniform distribution, ``log V``.
        beta: Weight of the entropy in ``cp``.
    """

    entropy: Float[Tensor, ""]
    largest: float
    beta: float

    @property
    def divisor(self) -> Float[Tensor, ""]:
        """The entropy, kept from 0."""
        return self.entropy.clamp_min(_LEAST_ENTROPY)


PENALTIES: dict[str, Callable[[Tensor, Confidence], Tensor]] = {
    "cp": lambda loss, sure: loss - sure.beta * sure.entropy,
    "cpf": lambda loss, sure: loss + 1 / sure.divisor,
    "cpfw": lambda loss, sure: loss * (1 + 1 / sure.divisor),
    "cpfwn": lambda loss, sure: loss * sure.largest / sure.divisor,
}
"""The loss of a batch with a penalty on confidence, by the name that the config gives it."""
