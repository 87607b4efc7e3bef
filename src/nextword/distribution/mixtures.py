"""Distributions mixed with each other or with stored tokens, and a distribution of stored tokens alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.distribution.scores import add_share, in_one_product
from nextword.functional.copy_scores import CopyScores, TextRead, in_store
from nextword.functional.probability import log_add_exp, log_add_exp_, logsumexp_finite, shift_rows_
from nextword.functional.weight_gradient import FusedBackward


class Mixture(NextToken):
    """``P(w) = sum_k weight_k P_k(w)``, used by the head ``mos``.

    Args:
        parts: The K distributions, over the same positions and vocabulary.
        log_weights: Log of each distribution's weight at each position; each row of weights sums to one.
    """

    def __init__(self, parts: Sequence[NextToken], log_weights: Float[Tensor, "N K"]) -> None:
        if log_weights.shape[-1] != len(parts):
            raise ValueError(
                f"mixture: must have a weight for each part ({len(parts)} parts, {log_weights.shape[-1]} weights given)"
            )
        self.parts = tuple(parts)
        self.log_weights = log_weights
        self.device = log_weights.device
        self.vocab_size = self.parts[0].vocab_size
        self.columns = self.parts[0].columns
        for part in self.parts:  # a loop, which torch.compile follows
            if part.columns.processes > 1:
                self.columns = part.columns

    def __len__(self) -> int:
        return len(self.log_weights)

    def softmaxes(self) -> int:
        return sum(part.softmaxes() for part in self.parts)

    def map(self, change: Callable[[Tensor], Tensor]) -> Mixture:
        return Mixture([part.map(change) for part in self.parts], change(self.log_weights))

    def shared(self) -> list[Tensor]:
        """The shared tensors of all ``parts``, each tensor once."""
        return list({id(tensor): tensor for part in self.parts for tensor in part.shared()}.values())

    def computed(self) -> Mixture:
        return Mixture([part.computed() for part in in_one_product(self.parts)], self.log_weights)

    def positions_in(self) -> dict[str, TextRead]:
        return {name: text for part in self.parts for name, text in part.positions_in().items()}

    def stands_in_store(self) -> dict[str, Tensor]:
        return {name: stands for part in self.parts for name, stands in part.stands_in_store().items()}

    def _log_probs(self) -> Float[Tensor, "N V"]:
        total: Tensor | None = None
        for part, log_weight in zip(in_one_product(self.parts), self.log_weights.unbind(-1), strict=True):
            weighted = shift_rows_(part._log_probs(), log_weight)
            total = weighted if total is None else log_add_exp_(total, weighted)
        assert total is not None
        return total

    def _log_prob(self, ids: Int[Tensor, "N K"], fused_backward: FusedBackward | None = None) -> Float[Tensor, "N K"]:
        parts = in_one_product(self.parts, fused_backward)
        log_probs = torch.stack([part._log_prob(ids, fused_backward) for part in parts], -1)
        return logsumexp_finite(log_probs + self.log_weights[:, None, :])

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        return self._weighted([part._log_sources(ids) for part in in_one_product(self.parts)])

    def _log_positions(self) -> dict[str, Tensor]:
        return self._weighted([part._log_positions() for part in self.parts])

    def _log_token_positions(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        return self._weighted([part._log_token_positions(ids) for part in self.parts])

    def _weighted(self, of_parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        shares: dict[str, Tensor] = {}
        for of_part, log_weight in zip(of_parts, self.log_weights.unbind(-1), strict=True):
            for name, share in of_part.items():
                add_share(shares, name, share + log_weight[:, None])
        return shares


# -- PointerMixture: a gate between a distribution and attention over stored tokens.


class PointerMixture(NextToken):
    """``P(w) = g P_base(w) + (1 - g) sum_{s: w_s = w} a_s``, where ``w_s`` is the token of the stored entry s.

    Used by ``pg``, ``ps``, ``cache``, ``knn`` and ``ngram``. The attention ``a`` is the softmax of the scores of the
    entries that the position may see. If it may see none, the gate ``g`` is 1.

    Args:
        base: The distribution that the attention is mixed with.
        attention: Stored tokens with their attention scores. A constant added to a row of scores changes nothing.
        log_gate: ``log g`` at each position.
        log_rest: ``log (1 - g)`` at each position. It is separate from ``log_gate`` because computing one from the
            other loses digits (for a logit x they are ``logsigmoid(x)`` and ``logsigmoid(-x)``).
        name: Name under which ``sources`` reports the share of the attention.
    """

    def __init__(
        self,
        base: NextToken,
        attention: CopyScores,
        log_gate: Float[Tensor, "N"],
        log_rest: Float[Tensor, "N"],
        name: str = "pointer",
    ) -> None:
        self.base = base
        self.device = base.device
        self.vocab_size = base.vocab_size
        self.columns = base.columns
        # entries without a share of the probability are hidden, because the log of zero has no gradient
        attention = replace(attention, visible=attention.visible & (log_rest > -torch.inf)[:, None])
        self.attention, _ = attention.relative()
        seen = attention.any_visible()
        self.log_gate = torch.where(seen, log_gate, 0.0)
        self.log_rest = torch.where(seen, log_rest, -torch.inf)
        self.name = name

    def __len__(self) -> int:
        return len(self.base)

    def softmaxes(self) -> int:
        return self.base.softmaxes()

    def map(self, change: Callable[[Tensor], Tensor]) -> PointerMixture:
        changed = self._over(self.base.map(change))
        changed.attention = self.attention.map(change)
        changed.log_gate, changed.log_rest = change(self.log_gate), change(self.log_rest)
        return changed

    def _over(self, base: NextToken) -> PointerMixture:
        changed = copy(self)  # keeps what was already computed from the attention
        changed.base, changed.device = base, base.device
        return changed

    def shared(self) -> list[Tensor]:
        return self.base.shared()

    def computed(self) -> PointerMixture:
        return self._over(self.base.computed())

    def positions_in(self) -> dict[str, TextRead]:
        return self.base.positions_in() | {self.name: self.attention.text}

    def stands_in_store(self) -> dict[str, Tensor]:
        return self.base.stands_in_store() | in_store({self.name: self.attention})

    def _attended(self) -> CopyScores:
        """The entries of the attention, each with its share of the whole probability as mass."""
        total = torch.where(self.attention.any_visible(), self.attention.log_mass(), 0.0)
        return self.attention.lowered(total - self.log_rest)

    def _log_probs(self) -> Float[Tensor, "N V"]:
        generated = shift_rows_(self.base._log_probs(), self.log_gate)
        return self._attended().add_to_(generated)

    def _log_prob(self, ids: Int[Tensor, "N K"], fused_backward: FusedBackward | None = None) -> Float[Tensor, "N K"]:
        generated = self.base._log_prob(ids, fused_backward) + self.log_gate[:, None]
        attended = self._attended().log_mass_of(ids, self.vocab_size)
        return log_add_exp(generated, attended.to(generated.dtype))

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        return self._both(self.base._log_sources(ids), self._attended().log_mass_of(ids, self.vocab_size))

    def _log_positions(self) -> dict[str, Tensor]:
        return self._both(self.base._log_positions(), self._attended().by_position())

    def _log_token_positions(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        return self._both(self.base._log_token_positions(ids), self._attended().holding(ids).by_position())

    def _both(self, of_base: dict[str, Tensor], attended: Tensor) -> dict[str, Tensor]:
        return {name: share + self.log_gate[:, None] for name, share in of_base.items()} | {self.name: attended}


# -- CacheDistribution: a distribution over stored tokens only.


class CacheDistribution(NextToken):
    """``P(w)`` proportional to the mass of the visible entries with the token w; zero for tokens without such an entry.

    If a position may see no entry, its distribution is that of ``fallback``.

    Args:
        entries: The stored tokens, with the log-mass of each entry.
        fallback: A distribution over the same positions.
        name: Name under which ``sources`` reports the share of the stored tokens.
    """

    def __init__(self, entries: CopyScores, fallback: NextToken, name: str = "cache") -> None:
        self.entries, _ = entries.relative()
        self.fallback = fallback
        self.device = fallback.device
        self.vocab_size = fallback.vocab_size
        self.columns = fallback.columns
        self.name = name

    def __len__(self) -> int:
        return len(self.fallback)

    def map(self, change: Callable[[Tensor], Tensor]) -> CacheDistribution:
        return CacheDistribution(self.entries.map(change), self.fallback.map(change), self.name)

    def shared(self) -> list[Tensor]:
        return self.fallback.shared()

    def computed(self) -> CacheDistribution:
        return CacheDistribution(self.entries, self.fallback.computed(), self.name)

    def positions_in(self) -> dict[str, TextRead]:
        return self.fallback.positions_in() | {self.name: self.entries.text}

    def stands_in_store(self) -> dict[str, Tensor]:
        return self.fallback.stands_in_store() | in_store({self.name: self.entries})

    def _total(self) -> tuple[Bool[Tensor, "N 1"], Float[Tensor, "N 1"]]:
        """Whether any entry is visible, and the log of the visible mass.

        The log is 0 if no entry is visible, because ``-inf - -inf`` would have a NaN gradient.
        """
        seen = self.entries.any_visible()
        return seen[:, None], torch.where(seen, self.entries.log_mass(), 0.0)[:, None]

    def _choose(self, stored: Float[Tensor, "N K"], otherwise: Float[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        seen, total = self._total()
        return torch.where(seen, stored - total, otherwise.to(stored.dtype))

    def _log_probs(self) -> Float[Tensor, "N V"]:
        return self._choose(self.entries.scatter(self.vocab_size), self.fallback._log_probs())

    def _log_prob(self, ids: Int[Tensor, "N K"], fused_backward: FusedBackward | None = None) -> Float[Tensor, "N K"]:
        stored = self.entries.log_mass_of(ids, self.vocab_size)
        return self._choose(stored, self.fallback._log_prob(ids, fused_backward))

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        seen = self.entries.any_visible()[:, None]
        of_fallback = self.fallback._log_sources(ids).items()
        shares = {source: share.masked_fill(seen, -torch.inf) for source, share in of_fallback}
        return shares | {self.name: self._log_prob(ids).masked_fill(~seen, -torch.inf)}

    def _log_positions(self) -> dict[str, Tensor]:
        return self._by_position(self.entries, self.fallback._log_positions())

    def _log_token_positions(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        return self._by_position(self.entries.holding(ids), self.fallback._log_token_positions(ids))

    def _by_position(self, entries: CopyScores, otherwise: dict[str, Tensor]) -> dict[str, Tensor]:
        seen, total = self._total()
        fallback = {name: shares.masked_fill(seen, -torch.inf) for name, shares in otherwise.items()}
        return fallback | {self.name: entries.by_position() - total}
