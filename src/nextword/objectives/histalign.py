"""HistAlign: TRIME and a ranked contrastive loss that aligns states with the states in memory."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from nextword.context import Context
from nextword.functional.entries import Entries
from nextword.functional.logspace import at_least_float32
from nextword.heads import head_spec
from nextword.heads.head import Head, RemembersTokens
from nextword.objectives.loss import Loss
from nextword.objectives.objective import Objective, ObjectiveConfig, registry
from nextword.objectives.ranking import REDUCTIONS, RankedMemory


class HistAlignConfig(ObjectiveConfig):
    """Settings of HistAlign."""

    objective: Literal["histalign"] = "histalign"
    base: Literal["trime", "mle"] = "trime"
    """Token loss: of the joint distribution (as released) or of the softmax alone (the paper's eq. 6)."""
    alpha: float = Field(default=1.0, ge=0)
    """Weight of the ranking loss (published: 1, LogicNLG 0.5)."""
    margin: float = Field(default=0.001, ge=0)
    """Margin a rank, lambda in the paper."""
    reduction: Literal["offset_mean", "offset_sum", "pair_sum", "pair_mean"] = "offset_mean"
    """How pairs become one number: mean over rank differences of the mean over pairs (released GPT-2 code), their sum
    (released BART code), the plain sum (eq. 5, divided by the tokens like the token loss), the mean over pairs."""
    ranks: Literal["all", "valid"] = "all"
    """Rank among all entries of the sequence, hidden ones too (as released), or among the visible ones (the paper)."""
    memory_values: Literal["inputs", "labels"] = "inputs"
    """Tokens that stored states stand for in the token loss; ``labels`` is what the released code does."""


@registry.register("histalign")
class HistAlign(Objective):
    """Token loss plus a ranking loss over the memory.

    Formula, with similarity ``s_tj`` of position t and entry j, positives i (entries that hold the target), negatives j
    (the other visible entries), and ranks r by cosine of input embeddings to the target's::

        L = L_token + alpha * reduce_{t, i, j: r_j > r_i} max(0, s_tj - s_ti + margin (r_j - r_i))

    What it adds: stored states of the target come before those of similar words, and these before unrelated words, so
    the cache alone can predict. Costs: work for positions whose target is in memory only; one product for the ranks.

    Source: HistAlign, eq. 5 and 6.

    Differs from the published code: rank differences without any pair are skipped (released: NaN or an exception); a
    batch without positives has ranking loss 0; ties are broken by place; an entry that holds the target outranks all
    others even when another token has the same embedding.

    Example:
        >>> from nextword.objectives import parse_objective
        >>> parse_objective({"objective": "histalign", "alpha": 0.5}).reduction
        'offset_mean'
    """

    Config = HistAlignConfig

    def check(self, head: Head) -> None:
        """Only heads with stored tokens have anything to align, and only the decoder's have labels."""
        if not isinstance(head, RemembersTokens):
            raise ValueError(
                f"histalign: head '{head_spec(head.config)}' stores no tokens, so there is nothing to align; "
                "use 'cache'"
            )
        if self.config.memory_values == "labels" and not head.remembers:
            raise ValueError(
                f"histalign.memory_values: head '{head_spec(head.config)}' stores the source's tokens on this model, "
                "which have no labels; use 'inputs'"
            )

    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Summed token loss plus the ranking loss, weighted so that one division by the tokens serves both."""
        assert isinstance(head, RemembersTokens)
        seen = context.with_label_values() if self.config.memory_values == "labels" else context
        mode = "lm_only" if self.config.base == "mle" else "joint"
        token_loss = -head(seen, mode=mode).log_likelihood(targets)
        entries = head.entries(context)
        memory = RankedMemory(
            scores=at_least_float32(entries.scores),
            holds_target=entries.ids[entries.row] == targets[:, None],
            visible=entries.visible,
            ranks=ranks_by_embedding(context, entries, targets, among_visible=self.config.ranks == "valid"),
        )
        ranking = REDUCTIONS[self.config.reduction](memory, self.config.margin)
        tokens = len(targets)
        # the plain sum is a sum over tokens already; means count once for every token of the batch they come from
        weighted = ranking if self.config.reduction == "pair_sum" else ranking * tokens
        parts = {"token_loss": (token_loss / max(tokens, 1)).detach(), "ranking_loss": ranking.detach()}
        return Loss(token_loss + self.config.alpha * weighted, tokens, parts)


@torch.no_grad()
def ranks_by_embedding(
    context: Context, entries: Entries, targets: Int[Tensor, "N"], *, among_visible: bool
) -> Int[Tensor, "N S"]:
    """Rank of every entry, 0 for the one whose token is nearest the target by cosine of input embeddings.

    Entries that hold the target itself come first, whatever rounding does to their cosine. Ties are broken by place.

    Args:
        context: Gives the input embedding.
        entries: The stored tokens.
        targets: Target at each position.
        among_visible: Rank the visible entries only, before all others.
    """
    assert context.input_embedding is not None
    embedding = at_least_float32(context.input_embedding.detach())
    # one product for each pair of distinct tokens, so that equal tokens tie to the last bit
    wanted, wanted_at = torch.unique(targets, return_inverse=True)
    stored, stored_at = torch.unique(entries.ids.clamp_min(0), return_inverse=True)
    with torch.autocast(embedding.device.type, enabled=False):
        table = F.normalize(embedding[wanted], dim=-1) @ F.normalize(embedding[stored], dim=-1).T
    cosine = table[wanted_at[:, None], stored_at[entries.row]]
    cosine = cosine.masked_fill(entries.ids[entries.row] == targets[:, None], 2.0)
    if among_visible:
        cosine = cosine.masked_fill(~entries.visible, -2.0)
    order = cosine.argsort(dim=-1, descending=True, stable=True)
    places = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, places)
