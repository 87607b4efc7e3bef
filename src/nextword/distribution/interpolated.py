"""Interpolated: a gate between a distribution and attention over stored tokens."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.functional.chunked.weight_gradient import SinglePass
from nextword.functional.logspace import log_add_exp, shift_rows_
from nextword.functional.retrieved_entries import in_store
from nextword.functional.stored_entries import Entries, TextRead


class Interpolated(NextToken):
    """``P(w) = g P_base(w) + (1 - g) sum_{s: w_s = w} a_s`` (pointer generator, pointer sentinel).

    Attention is normalised over the visible entries here, so whatever scores come in, the row sums to one; where no
    entry is visible the gate is 1.

    Args:
        base: The generating distribution.
        attention: Stored tokens with their attention scores (any constant may be added to a row).
        log_gate: ``log g`` at each position.
        log_rest: ``log (1 - g)`` at each position, beside ``log_gate`` because neither can be had from the other
            without losing digits (from a logit x they are ``logsigmoid(x)`` and ``logsigmoid(-x)``).
        name: Name of the attention in ``sources``.
    """

    def __init__(
        self,
        base: NextToken,
        attention: Entries,
        log_gate: Float[Tensor, "N"],
        log_rest: Float[Tensor, "N"],
        name: str = "pointer",
    ) -> None:
        self.base = base
        self.device = base.device
        self.vocab_size = base.vocab_size
        self.columns = base.columns
        # without a share of the probability nothing is seen: the log of zero has no gradient
        attention = replace(attention, visible=attention.visible & (log_rest > -torch.inf)[:, None])
        self.attention, _ = attention.relative()
        seen = attention.any_visible()
        self.log_gate = torch.where(seen, log_gate, 0.0)
        self.log_rest = torch.where(seen, log_rest, -torch.inf)
        self.name = name

    def __len__(self) -> int:
        return len(self.base)

    def softmaxes(self) -> int:
        """Those of the generating distribution."""
        return self.base.softmaxes()

    def map(self, change: Callable[[Tensor], Tensor]) -> Interpolated:
        """With ``change`` made to the base, the attention and the gate."""
        changed = self._over(self.base.map(change))
        changed.attention = self.attention.map(change)
        changed.log_gate, changed.log_rest = change(self.log_gate), change(self.log_rest)
        return changed

    def _over(self, base: NextToken) -> Interpolated:
        """The same with another base; what was made of the attention is not made again."""
        changed = copy(self)
        changed.base, changed.device = base, base.device
        return changed

    def shared(self) -> list[Tensor]:
        """That of the generating distribution."""
        return self.base.shared()

    def computed(self) -> Interpolated:
        """With the generating distribution computed."""
        return self._over(self.base.computed())

    def places_in(self) -> dict[str, TextRead]:
        """Those of the base, and that of the attention."""
        return self.base.places_in() | {self.name: self.attention.text}

    def _stands(self) -> dict[str, Tensor]:
        return self.base._stands() | in_store({self.name: self.attention})

    def _attended(self) -> Entries:
        """The entries with their share of the probability as their mass."""
        total = torch.where(self.attention.any_visible(), self.attention.log_mass(), 0.0)
        return self.attention.lowered(total - self.log_rest)

    def _log_probs(self) -> Float[Tensor, "N V"]:
        generated = shift_rows_(self.base._log_probs(), self.log_gate)
        return self._attended().add_to_(generated)

    def _log_prob(self, ids: Int[Tensor, "N K"], single_pass: SinglePass | None = None) -> Float[Tensor, "N K"]:
        generated = self.base._log_prob(ids, single_pass) + self.log_gate[:, None]
        attended = self._attended().log_mass_of(ids, self.vocab_size)
        return log_add_exp(generated, attended.to(generated.dtype))

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        generated = self.base._log_sources(ids)
        shares = {source: share + self.log_gate[:, None] for source, share in generated.items()}
        return shares | {self.name: self._attended().log_mass_of(ids, self.vocab_size)}

    def _log_places(self) -> dict[str, Tensor]:
        generated = {name: shares + self.log_gate[:, None] for name, shares in self.base._log_places().items()}
        return generated | {self.name: self._attended().by_place()}

    def _log_token_places(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        of_base = self.base._log_token_places(ids)
        generated = {name: shares + self.log_gate[:, None] for name, shares in of_base.items()}
        return generated | {self.name: self._attended().holding(ids).by_place()}
