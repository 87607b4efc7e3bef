"""FACE: cross-entropy weighted by how often tokens were said."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from nextword.heads import Dimensions
from nextword.heads.context import Context
from nextword.heads.head import Head
from nextword.objectives.objective import Objective, ObjectiveConfig, registry
from nextword.objectives.parts.balancing import COUNTED, PENALTIES, WEIGHTS, Answers, Confidence, occurrences
from nextword.objectives.parts.loss import Loss
from nextword.objectives.parts.process_sums import summed_over_processes

_VARIANTS = {f"{counts[0]}p{weight[1]}": (counts, weight) for counts in COUNTED for weight in WEIGHTS}


class FaceConfig(ObjectiveConfig):
    """Settings of FACE."""

    objective: Literal["face"] = "face"
    counts: Literal["output", "gold"] = "output"
    """Tokens that are counted: the most probable one at each position, or the targets."""
    weight: Literal["pre", "post"] = "pre"
    """Weight by how often the target was counted, or by how much oftener what the model says instead was."""
    penalty: Literal["cp", "cpf", "cpfw", "cpfwn"] | None = None
    """Penalty on confidence."""
    beta: float = Field(default=2.5, ge=0)
    """Weight of the penalty ``cp``."""
    start: int | None = Field(default=None, ge=0)
    """Token id that is not counted where a row begins with it."""
    end: int | None = Field(default=None, ge=0)
    """Token id of the end: it is not counted, nor what follows the first one of a row. None: all tokens count."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``face:opr`` or ``face:gpo,cp``."""
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
        """``opr``, and the penalty where there is one."""
        chosen = (self.counts, self.weight)
        variant = next(name for name, settings in _VARIANTS.items() if settings == chosen)
        return [variant, *([self.penalty] if self.penalty else [])]


@registry.register("face")
class Face(Objective):
    """Frequency-aware cross-entropy: frequent tokens count less as targets.

    Formula, with counts f of the tokens said in training so far, this batch included::

        L = sum_t w_t (-log P(x_t | ...))
        pre:   w_t = (1 - f[x_t] / max f) / mean_v (1 - f[v] / max f)
        post:  w_t = 1 + max(0, f[argmax P_t] - f[x_t]) / sum f

    and with the mean entropy H of the batch, ``cp``: L - beta H; ``cpf``: L + 1 / H; ``cpfw``: L (1 + 1 / H);
    ``cpfwn``: L log V / H.

    What it adds: gradient goes to the words that the model neglects. Costs: the output layer once more without
    gradient, for the most probable tokens (``opr``, ``opo``, ``gpo``), and once more for H with a penalty.

    Source: Jiang et al. 2019, eq. 10 and 11. In evaluation the loss is the plain likelihood.

    Differs from the published code: padding is not counted; ``cpfwn`` has the sign that makes it a loss; weights are 1
    while nothing is counted; evaluation is not weighted. As there, ``cp`` and ``cpf`` add one mean to a sum over
    tokens.

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
        # whole numbers: no cast of the model to half precision touches them, and they are the same on all processes
        self.register_buffer("counts", torch.zeros(dimensions.vocab_size, dtype=torch.int64))

    @property
    def couples_rows(self) -> str:
        """Weights are of counts over all rows."""
        return "tokens are weighted by counts over the whole batch and those before it"

    def reset_parameters(self) -> None:
        """Nothing counted."""
        self.counts.zero_()

    def resize_vocabulary(self, size: int) -> None:
        """New tokens have not been counted."""
        kept = self.counts[:size]
        self.counts = torch.cat([kept, kept.new_zeros(size - len(kept))])

    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Summed weighted negative log-likelihood; in training the counts go on first."""
        answers, config = Answers(head(context), targets), self.config
        tokens = len(targets)
        each = -answers.distribution.log_prob(targets[:, None])[:, 0]
        if not self.training:
            return Loss.of(each.sum(), tokens, token_loss=each.sum())
        seen = COUNTED[config.counts](answers)
        new = occurrences(seen, context.layout, len(self.counts), start=config.start, end=config.end)
        self.counts += summed_over_processes(new)
        total = (WEIGHTS[config.weight](self.counts, answers).to(each.dtype) * each).sum()
        parts = {"token_loss": each.sum(), "weighted_loss": total}
        if config.penalty is not None and tokens:
            entropies = answers.distribution.entropy()
            sure = Confidence(entropies.mean(), math.log(answers.distribution.vocab_size), config.beta)
            total = PENALTIES[config.penalty](total, sure)
            parts["entropy"] = entropies.sum()
        return Loss.of(total, tokens, **parts)
