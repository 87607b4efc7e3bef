"""A head that was asked already: what an objective is given where a pass returns logits too."""

from __future__ import annotations

from copy import copy
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution import KnownScores, NextToken
from nextword.heads.context import Context
from nextword.heads.head import Head


def asked_head(head: Head, context: Context, logits: Float[Tensor, "*rows V"], row: Int[Tensor, "N"]) -> Head:
    """``head`` itself, but at this very context its distribution is read off ``logits``: nothing is computed twice.

    Elsewhere, or in another of its modes, it answers as ever; so it does where logits have a gradient, which a loss
    makes chunk by chunk in less memory. It is of the same class, so that an objective finds whatever else it has.

    Args:
        head: The head, which is not changed.
        context: Where the loss asks it.
        logits: What it answered at all positions of the pass, in the mode that it is set to.
        row: Which of these positions are those of the context.
    """
    if logits.requires_grad:
        return head
    known, set_to = KnownScores(logits.flatten(0, -2), row), getattr(head.config, "mode", "joint")

    def forward(other: Context, mode: str | None = None) -> NextToken:
        return known if other is context and mode in (None, set_to) else head.forward(other, mode=mode)

    asked: Any = copy(head)
    asked.forward = forward
    return asked  # type: ignore[no-any-return]
