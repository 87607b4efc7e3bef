"""FACE: cross-entropy in which frequent tokens have smaller weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from nextword.heads import Dimensions
from nextword.heads.context import Context, Layout
from nextword.heads.head import Head
from nextword.objectives.objective import Loss, Objective, ObjectiveConfig, registry, summed_over_processes

# -- The parts of FACE: weights from token counts, and penalties on confidence.
#
# Counts are integers; everything computed from them is float64 and has no gradient.

_LEAST_ENTROPY = 1e-6
"""Smallest entropy, in nats, by which a penalty divides. It replaces smaller entropies."""


def occurrences(
    tokens: Int[Tensor, "N"], layout: Layout, vocab_size: int, *, start: int | None = None, end: int | None = None
) -> Int[Tensor, "V"]:
    """Counts how often each token occurs in ``tokens``; ``layout`` has each token's row and position.

    The token ``start`` does not count at the beginning of a row. The first token ``end`` of a row and all tokens after
    it do not count.
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
    """Returns ``1 - f / max f``, with f the ``counts``, divided by its mean over the vocabulary (FACE, eq. 10).

    The mean weight is 1. The most frequent token has weight 0. While all counts are equal (for example, all 0), all
    weights are 1.

    >>> class_weights(torch.tensor([2, 1, 0, 0]))
    tensor([0.0000, 0.8000, 1.6000, 1.6000], dtype=torch.float64)
    """
    weights = 1 - counts.double() / counts.max().clamp_min(1)
    mean = weights.mean()
    flat = (counts == counts[0]).all()
    return torch.where(flat, 1.0, weights / torch.where(flat, 1.0, mean))


def post_weights(
    counts: Int[Tensor, "V"], predictions: Int[Tensor, "N"], targets: Int[Tensor, "N"]
) -> Float[Tensor, "N"]:
    """Returns 1 + max(0, count of the predicted token - count of the target) / sum of all counts (eq. 11)."""
    excess = (counts[predictions] - counts[targets]).clamp_min(0)
    return 1 + excess.double() / counts.sum().clamp_min(1)


PENALTIES: dict[str, Callable[[Tensor, Tensor, float, float], Tensor]] = {
    "cp": lambda loss, entropy, largest, beta: loss - beta * entropy,
    "cpf": lambda loss, entropy, largest, beta: loss + 1 / entropy.clamp_min(_LEAST_ENTROPY),
    "cpfw": lambda loss, entropy, largest, beta: loss * (1 + 1 / entropy.clamp_min(_LEAST_ENTROPY)),
    "cpfwn": lambda loss, entropy, largest, beta: loss * largest / entropy.clamp_min(_LEAST_ENTROPY),
}
"""Functions that add a penalty on confidence to the loss of a batch, by name. Their arguments: the loss, the mean
entropy of the positions (nats), the entropy of the uniform distribution (``log V``), and the weight ``beta``."""


# -- FACE.

_VARIANTS = {"opr": ("output", "pre"), "opo": ("output", "post"), "gpr": ("gold", "pre"), "gpo": ("gold", "post")}
"""Settings ``counts`` and ``weight`` of each variant, by its name in a spec."""


class FaceConfig(ObjectiveConfig):
    """Settings of FACE."""

    objective: Literal["face"] = "face"
    counts: Literal["output", "gold"] = "output"
    """Tokens that are counted: the model's most probable token at each position (``output``), or the targets
    (``gold``)."""
    weight: Literal["pre", "post"] = "pre"
    """Weight of a target: smaller the higher its count (``pre``), or larger the more its count is below that of the
    model's most probable token (``post``)."""
    penalty: Literal["cp", "cpf", "cpfw", "cpfwn"] | None = None
    """Penalty on confidence; None: no penalty."""
    beta: float = Field(default=2.5, ge=0)
    """Weight of the penalty ``cp``."""
    start: int | None = Field(default=None, ge=0)
    """Token id that is not counted at the beginning of a row, such as a start token; None: every token counts there."""
    end: int | None = Field(default=None, ge=0)
    """Id of the end token. The first end token of a row and all tokens after it are not counted. None: all count."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parses the arguments of a spec such as ``face:opr`` or ``face:gpo,cp``."""
        if not arguments:
            return {}
        variant, *penalty = arguments
        if variant not in _VARIANTS or len(penalty) > 1 or not set(penalty) <= set(PENALTIES):
            raise ValueError(
                f"must be followed by one of {', '.join(_VARIANTS)} and perhaps one of {', '.join(PENALTIES)} "
                f"({','.join(arguments)!r} given)"
            )
        counts, weight = _VARIANTS[variant]
        return {"counts": counts, "weight": weight, "penalty": penalty[0] if penalty else None}

    def arguments(self) -> list[str]:
        """Returns the arguments of the spec: the variant (``opr``) and the penalty, if any."""
        chosen = (self.counts, self.weight)
        variant = next(name for name, settings in _VARIANTS.items() if settings == chosen)
        return [variant, *([self.penalty] if self.penalty else [])]


@registry.register("face")
class Face(Objective):
    """Frequency-aware cross-entropy: frequent tokens have smaller weights as targets.

    Formula, with token counts f in training so far, this batch included::

        L = sum_t w_t (-log P(x_t | ...))
        pre:   w_t = (1 - f[x_t] / max f) / mean_v (1 - f[v] / max f)
        post:  w_t = 1 + max(0, f[argmax P_t] - f[x_t]) / sum f

    A penalty changes L. With the mean entropy H of the batch and the vocabulary size V, ``cp``: L - beta H;
    ``cpf``: L + 1 / H; ``cpfw``: L (1 + 1 / H); ``cpfwn``: L log V / H.

    Effect: tokens with low counts get more gradient. Cost: the output layer runs once more without gradient for the
    most probable tokens (unless gold tokens are counted and weights are ``pre``), and once more for H with a penalty.

    Source: Jiang et al. 2019, eq. 10 and 11. In evaluation the loss is the negative log-likelihood.

    Differs from the published code: padding is not counted; the factor of ``cpfwn`` is positive; weights are 1 while
    all counts are equal; evaluation is not weighted. As in the published code, ``cp`` and ``cpf`` add one mean to a
    sum over tokens.

    Examples:
        >>> from nextword.objectives import parse_objective
        >>> parse_objective("face:gpo,cp").counts
        'gold'
    """

    Config = FaceConfig
    counts: Int[Tensor, "V"]

    def __init__(self, config: FaceConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        for name, token in (("start", config.start), ("end", config.end)):
            if token is not None and token >= dimensions.vocab_size:
                raise ValueError(
                    f"face.{name}: token id {token} is outside the vocabulary of {dimensions.vocab_size} tokens"
                )
        # integers: casting the model to half precision does not change them, and they are equal on all processes
        self.register_buffer("counts", torch.zeros(dimensions.vocab_size, dtype=torch.int64))

    @property
    def couples_rows(self) -> str:
        """The reason why the loss is not a sum over rows: the weights of a row depend on token counts of all rows."""
        return "tokens are weighted by counts over the whole batch and all earlier batches"

    def reset_parameters(self) -> None:
        """Sets all counts to zero."""
        self.counts.zero_()

    def resize_vocabulary(self, size: int) -> None:
        """Changes the number of counts to ``size``; new tokens have the count 0."""
        kept = self.counts[:size]
        self.counts = torch.cat([kept, kept.new_zeros(size - len(kept))])

    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Returns the summed negative log-likelihood; in training, weighted by counts that include this batch."""
        distribution, config, tokens = head(context), self.config, len(targets)
        each = -distribution.log_prob(targets[:, None])[:, 0]
        if not self.training:
            return Loss.of(each.sum(), tokens, token_loss=each.sum())
        said = targets
        if config.counts == "output" or config.weight == "post":
            with torch.no_grad():
                said = distribution.top_k(1)[1][:, 0]
        counted = said if config.counts == "output" else targets
        new = occurrences(counted, context.layout, len(self.counts), start=config.start, end=config.end)
        self.counts += summed_over_processes(new)
        pre = config.weight == "pre"
        weights = class_weights(self.counts)[targets] if pre else post_weights(self.counts, said, targets)
        total = (weights.to(each.dtype) * each).sum()
        parts = {"token_loss": each.sum(), "weighted_loss": total}
        if config.penalty is not None and tokens:
            entropies, largest = distribution.entropy(), math.log(distribution.vocab_size)
            total = PENALTIES[config.penalty](total, entropies.mean(), largest, config.beta)
            parts["entropy"] = entropies.sum()
        return Loss.of(total, tokens, **parts)
