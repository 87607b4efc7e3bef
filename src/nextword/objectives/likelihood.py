"""Maximum likelihood, which is TRIME through a cache head, and unlikelihood of tokens that occurred before."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from pydantic import Field
from torch import Tensor

from nextword.functional.copy_scores import UniqueTokens
from nextword.heads import head_spec
from nextword.heads.context import Context, Layout
from nextword.heads.head import Head, RemembersTokens
from nextword.objectives.objective import Loss, Objective, ObjectiveConfig, registry


class LikelihoodConfig(ObjectiveConfig):
    """Settings of maximum likelihood."""

    objective: Literal["mle"] = "mle"
    memory_values: Literal["inputs", "labels"] = "inputs"
    """Tokens that stored states stand for in training: the input tokens, or the labels as in the released TRIME code,
    where a masked label (-100) is an entry that no target can match."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``mle:labels``."""
        if arguments not in ([], ["labels"], ["inputs"]):
            raise ValueError(f"must be followed by nothing, 'inputs' or 'labels' ({','.join(arguments)!r} given)")
        return {"memory_values": arguments[0]} if arguments else {}

    def arguments(self) -> list[str]:
        """``labels`` where it is not the default."""
        return [self.memory_values] if self.memory_values != "inputs" else []


@registry.register("mle")
class Likelihood(Objective):
    """Negative log-likelihood of the targets under the head's own distribution.

    Formula: ``-sum_t log P(x_t | ...)``. With the cache head, P holds the stored tokens, and this is the TRIME loss:
    gradients flow into queries and keys.

    When to use: always the first thing to try. Costs nothing beyond the distribution.

    Source: any language model; TRIME, Zhong et al. 2022, for the cache.

    Differs from the published code: ``mle:labels`` (values from masked labels) is kept only to reproduce TRIME as
    released on data with masked prompts, where it trains the cache to be ignored.

    Examples:
        >>> from nextword.objectives import parse_objective
        >>> parse_objective("mle:labels").memory_values
        'labels'
    """

    Config = LikelihoodConfig

    def check(self, head: Head) -> None:
        """Values from labels need a head that stores the decoder's tokens."""
        if self.config.memory_values == "labels" and not (isinstance(head, RemembersTokens) and head.remembers):
            raise ValueError(
                f"mle:labels: head '{head_spec(head.config)}' stores no tokens of the decoder on this model, "
                "so there are no memory values to take from labels; use 'mle'"
            )

    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Summed negative log-likelihood."""
        if self.config.memory_values == "labels":
            context = context.with_label_values()
        total = -head(context).log_likelihood(targets)
        return Loss.of(total, len(targets), token_loss=total)


# -- Unlikelihood: the targets are made likely, and tokens that occurred before are made unlikely in their place.


class UnlikelihoodConfig(ObjectiveConfig):
    """Settings of token-level unlikelihood."""

    objective: Literal["unlikelihood"] = "unlikelihood"
    alpha: float = Field(default=1.0, ge=0)
    """Weight of the unlikelihood term (published: 1)."""
    floor: float | None = Field(default=None, gt=0, lt=1)
    """Smallest ``1 - p`` that is told apart (released code: 1e-5); nothing is learned below. None: no such limit."""


@registry.register("unlikelihood")
class Unlikelihood(Objective):
    """Likelihood of the targets and unlikelihood of earlier targets, token by token.

    Formula, with candidates ``C_t`` = the distinct targets before t in the same row, without that of t::

        L = sum_t [-log P(x_t | ...) + alpha sum_{c in C_t} -log(1 - P(c | ...))]

    What it adds: words that were said already give way to others, so greedy text repeats itself less. Costs: the output
    layer is computed a second time, and (N, C) numbers.

    Source: Welleck et al. 2020, eq. 3 to 5. In evaluation the loss is the likelihood part alone.

    Differs from the published code: candidates are those of the row itself (released: of the whole batch, flattened),
    never padding (released: always); ``1 - P`` is not cut off at 1e-5, and keeps its gradient where P rounds to 1.

    Examples:
        >>> from nextword.objectives import parse_objective
        >>> parse_objective("unlikelihood+seq:0.25").seq.continuation
        100
    """

    Config = UnlikelihoodConfig

    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Summed likelihood and unlikelihood terms."""
        distribution, tokens = head(context), len(targets)
        likelihood = -distribution.log_likelihood(targets)
        if not self.training:
            return Loss.of(likelihood, tokens, token_loss=likelihood)
        candidates, counted = previous_targets(targets, context.layout)
        complement = distribution.log_complement(candidates)
        if self.config.floor is not None:
            complement = complement.clamp_min(math.log(self.config.floor))
        unlikelihood = -complement.masked_fill(~counted, 0.0).sum()
        total = likelihood + self.config.alpha * unlikelihood
        return Loss.of(total, tokens, token_loss=likelihood, unlikelihood=unlikelihood)


def previous_targets(targets: Int[Tensor, "N"], layout: Layout) -> tuple[Int[Tensor, "N K"], Bool[Tensor, "N K"]]:
    """Distinct targets of each position's row, and which of them came before without being its own target.

    >>> ids, counted = previous_targets(torch.tensor([7, 3, 7]), Layout(torch.tensor([0, 0, 0]), 1))
    >>> ids.tolist(), counted.int().tolist()
    ([[3, 7], [3, 7], [3, 7]], [[0, 0], [0, 1], [1, 0]])
    """
    row, slot = layout.row, layout.slot
    told = targets.new_zeros(layout.batch_size, layout.width).index_put((row, slot), targets)
    words = UniqueTokens.of(
        told, told.new_zeros(told.shape, dtype=torch.bool).index_put((row, slot), torch.ones_like(row) > 0)
    )
    ids = words.ids[row]
    return ids, words.seen(row, slot) & (ids != targets[:, None])
