"""Maximum likelihood (TRIME, if the head is a cache), and unlikelihood of tokens that occurred earlier."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
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
    """Tokens that the cache stores in training: the input tokens, or the labels (as the released TRIME code does). An
    entry whose label is masked (-100) matches no target."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parses the arguments of a spec such as ``mle:labels``."""
        if arguments not in ([], ["labels"], ["inputs"]):
            raise ValueError(f"must be followed by nothing, 'inputs' or 'labels' ({','.join(arguments)!r} given)")
        return {"memory_values": arguments[0]} if arguments else {}

    def arguments(self) -> list[str]:
        """Returns ``["labels"]``, or an empty list for the default."""
        return [self.memory_values] if self.memory_values != "inputs" else []


@registry.register("mle")
class Likelihood(Objective):
    """Negative log-likelihood of the targets under the distribution of the head.

    Formula: ``-sum_t log P(x_t | ...)``. With the head ``cache``, P includes the cache. The loss is then that of TRIME,
    whose gradients flow into queries and keys.

    When to use: first, as the baseline. Cost: that of computing the distribution.

    Source: standard; with a cache: TRIME, Zhong et al. 2022.

    Differs from the published code: the cache stores input tokens. ``mle:labels`` stores labels, as TRIME's released
    code does; with masked prompts, this trains the model to ignore the cache.

    Examples:
        >>> from nextword.objectives import parse_objective
        >>> parse_objective("mle:labels").memory_values
        'labels'
    """

    Config = LikelihoodConfig

    def check(self, head: Head) -> None:
        """Raises ValueError if ``memory_values`` is ``labels`` and ``head`` does not store the decoder's tokens."""
        if self.config.memory_values == "labels" and not (isinstance(head, RemembersTokens) and head.remembers):
            raise ValueError(
                f"mle:labels: head '{head_spec(head.config)}' stores no tokens of the decoder on this model, "
                "so there are no memory values to take from labels; use 'mle'"
            )

    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Returns the negative log-likelihood, summed over ``targets``."""
        if self.config.memory_values == "labels":
            context = context.with_label_values()
        total = -head(context).log_likelihood(targets)
        return Loss.of(total, len(targets), token_loss=total)


# -- Unlikelihood: raises the probability of the targets and lowers that of earlier tokens.


class UnlikelihoodConfig(ObjectiveConfig):
    """Settings of token-level unlikelihood."""

    objective: Literal["unlikelihood"] = "unlikelihood"
    alpha: float = Field(default=1.0, ge=0)
    """Weight of the unlikelihood term (published: 1)."""
    floor: float | None = Field(default=None, gt=0, lt=1)
    """Smallest value of ``1 - p``; below it the gradient is zero (released code: 1e-5). None: no limit."""


@registry.register("unlikelihood")
class Unlikelihood(Objective):
    """Likelihood of the targets and unlikelihood of earlier targets, token by token.

    Formula, with candidates ``C_t``: the distinct targets before t in the same row, except ``x_t``::

        L = sum_t [-log P(x_t | ...) + alpha sum_{c in C_t} -log(1 - P(c | ...))]

    Effect: earlier tokens become less probable, so greedy text repeats itself less. Cost: a tensor (N, K) is stored, K
    being the most distinct targets of a row. The output layer runs again for positions where an earlier token has a
    probability of more than one half.

    Source: Welleck et al. 2020, eq. 3 to 5. In evaluation the loss is the likelihood part alone.

    Differs from the published code: candidates come from the same row (released: from the whole flattened batch) and
    never include padding (released: always); ``1 - P`` is not clamped at 1e-5 and has a gradient even if P rounds to 1.

    Examples:
        >>> from nextword.objectives import parse_objective
        >>> parse_objective("unlikelihood+seq:0.25").seq.continuation
        100
    """

    Config = UnlikelihoodConfig

    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Returns the sum of the likelihood and unlikelihood terms; in evaluation, of the likelihood terms alone."""
        distribution, tokens = head(context), len(targets)
        alpha: float = self.config.alpha
        if not self.training:
            likelihood = -distribution.log_likelihood(targets)
            return Loss.of(likelihood, tokens, token_loss=likelihood)
        candidates, counted = previous_targets(targets, context.layout)
        if torch.compiler.is_compiling():  # a graph cannot let shapes depend on probabilities
            likelihood = -distribution.log_likelihood(targets)
            unlikelihood = self._sums(distribution.log_complement(candidates).masked_fill(~counted, 0.0)).sum()
            total = likelihood + alpha * unlikelihood
            return Loss.of(total, tokens, token_loss=likelihood, unlikelihood=unlikelihood)

        def of_small(log_probs: Tensor, rows: slice) -> Tensor:
            small = counted[rows] & (log_probs[:, 1:] <= _HALF)
            return self._sums(torch.log1p(-log_probs[:, 1:].masked_fill(~small, -torch.inf).exp()))

        def of_positions(log_probs: Tensor, rows: slice) -> Tensor:
            return alpha * of_small(log_probs, rows) - log_probs[:, 0]

        log_probs, total = distribution.log_prob_and_sum(torch.cat([targets[:, None], candidates], 1), of_positions)
        unlikelihood = of_small(log_probs, slice(None)).sum()
        # few positions give an earlier token more than one half; there 1 - P is the sum over all other tokens
        rows, columns = (counted & (log_probs[:, 1:] > _HALF)).nonzero(as_tuple=True)
        if len(rows):
            of_large = self._sums(distribution[rows].log_complement(candidates[rows, columns, None])).sum()
            total, unlikelihood = total + alpha * of_large, unlikelihood + of_large
        return Loss.of(total, tokens, token_loss=-log_probs[:, 0].sum(), unlikelihood=unlikelihood)

    def _sums(self, complement: Float[Tensor, "N K"]) -> Float[Tensor, "N"]:
        if self.config.floor is not None:
            complement = complement.clamp_min(math.log(self.config.floor))
        return complement.sum(-1).neg()


_HALF = -math.log(2)


def previous_targets(targets: Int[Tensor, "N"], layout: Layout) -> tuple[Int[Tensor, "N K"], Bool[Tensor, "N K"]]:
    """Returns the distinct targets of each position's row, and a mask of those that occurred before the position.

    The position's own target is not in the mask.

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
