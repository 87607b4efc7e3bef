"""Mixture: distributions blended by gate weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.distribution.scores import in_one_product
from nextword.functional.chunked.weight_gradient import SinglePass
from nextword.functional.logspace import log_add_exp, log_add_exp_, logsumexp_finite, shift_rows_
from nextword.functional.stored_entries import TextRead


class Mixture(NextToken):
    """``P(w) = sum_k weight_k P_k(w)``: mixture of softmaxes, linear interpolation with a cache.

    Args:
        parts: The K blended distributions, over the same positions and vocabulary.
        log_weights: Log of each part's weight at each position; each row sums to one in probability.
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
        """Those of all parts, which are made as one."""
        return sum(part.softmaxes() for part in self.parts)

    def map(self, change: Callable[[Tensor], Tensor]) -> Mixture:
        """With ``change`` made to the parts and their weights."""
        return Mixture([part.map(change) for part in self.parts], change(self.log_weights))

    def shared(self) -> list[Tensor]:
        """What the parts share, each tensor once."""
        return list({id(tensor): tensor for part in self.parts for tensor in part.shared()}.values())

    def computed(self) -> Mixture:
        """With its parts computed, their products made as one."""
        return Mixture([part.computed() for part in in_one_product(self.parts)], self.log_weights)

    def places_in(self) -> dict[str, TextRead]:
        """Those of all parts."""
        return {name: text for part in self.parts for name, text in part.places_in().items()}

    def _stands(self) -> dict[str, Tensor]:
        return {name: stands for part in self.parts for name, stands in part._stands().items()}

    def _log_probs(self) -> Float[Tensor, "N V"]:
        total: Tensor | None = None
        for part, log_weight in zip(in_one_product(self.parts), self.log_weights.unbind(-1), strict=True):
            weighted = shift_rows_(part._log_probs(), log_weight)
            total = weighted if total is None else log_add_exp_(total, weighted)
        assert total is not None
        return total

    def _log_prob(self, ids: Int[Tensor, "N K"], single_pass: SinglePass | None = None) -> Float[Tensor, "N K"]:
        parts = in_one_product(self.parts, single_pass)
        log_probs = torch.stack([part._log_prob(ids, single_pass) for part in parts], -1)
        return logsumexp_finite(log_probs + self.log_weights[:, None, :])

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        return self._weighted([part._log_sources(ids) for part in in_one_product(self.parts)])

    def _log_places(self) -> dict[str, Tensor]:
        return self._weighted([part._log_places() for part in self.parts])

    def _log_token_places(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        return self._weighted([part._log_token_places(ids) for part in self.parts])

    def _weighted(self, of_parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        shares: dict[str, Tensor] = {}
        for of_part, log_weight in zip(of_parts, self.log_weights.unbind(-1), strict=True):
            for name, share in of_part.items():
                weighted = share + log_weight[:, None]
                shares[name] = log_add_exp(shares[name], weighted) if name in shares else weighted
        return shares
