"""Maximum likelihood; through the cache head this is TRIME."""

from __future__ import annotations

from typing import Any, Literal

from jaxtyping import Int
from torch import Tensor

from nextword.heads import head_spec
from nextword.heads.context import Context
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
