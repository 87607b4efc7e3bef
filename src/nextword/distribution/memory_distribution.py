"""OnMemory: a distribution over what is stored only."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.functional.chunked.weight_gradient import SinglePass
from nextword.functional.retrieved_entries import in_store
from nextword.functional.stored_entries import Entries, TextRead


class OnMemory(NextToken):
    """``P(w)`` proportional to the mass of the visible entries that hold ``w``; zero for every other token.

    At a position that sees no entry there is nothing to distribute over; ``fallback`` speaks there, so that every row
    is a distribution.

    Args:
        entries: What is stored, with the log-mass of each entry.
        fallback: The distribution where nothing is stored, over the same positions.
        name: Name of the stored part in ``sources``.
    """

    def __init__(self, entries: Entries, fallback: NextToken, name: str = "cache") -> None:
        self.entries, _ = entries.relative()
        self.fallback = fallback
        self.device = fallback.device
        self.vocab_size = fallback.vocab_size
        self.name = name

    def __len__(self) -> int:
        return len(self.fallback)

    def map(self, change: Callable[[Tensor], Tensor]) -> OnMemory:
        """With ``change`` made to what is stored and to the fallback."""
        return OnMemory(self.entries.map(change), self.fallback.map(change), self.name)

    def shared(self) -> list[Tensor]:
        """That of the fallback."""
        return self.fallback.shared()

    def computed(self) -> OnMemory:
        """With the fallback computed."""
        return OnMemory(self.entries, self.fallback.computed(), self.name)

    def places_in(self) -> dict[str, TextRead]:
        """Those of the fallback, and that of what is stored."""
        return self.fallback.places_in() | {self.name: self.entries.text}

    def _stands(self) -> dict[str, Tensor]:
        return self.fallback._stands() | in_store({self.name: self.entries})

    def _choose(self, stored: Float[Tensor, "N K"], otherwise: Float[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        seen = self.entries.any_visible()
        # the inner where keeps -inf - -inf, and its NaN gradient, out of rows that are replaced anyway
        total = torch.where(seen, self.entries.log_mass(), 0.0)
        return torch.where(seen[:, None], stored - total[:, None], otherwise.to(stored.dtype))

    def _log_probs(self) -> Float[Tensor, "N V"]:
        return self._choose(self.entries.scatter(self.vocab_size), self.fallback._log_probs())

    def _log_prob(self, ids: Int[Tensor, "N K"], single_pass: SinglePass | None = None) -> Float[Tensor, "N K"]:
        stored = self.entries.log_mass_of(ids, self.vocab_size)
        return self._choose(stored, self.fallback._log_prob(ids, single_pass))

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        seen = self.entries.any_visible()[:, None]
        shares = {
            source: share.masked_fill(seen, -torch.inf) for source, share in self.fallback._log_sources(ids).items()
        }
        return shares | {self.name: self._log_prob(ids).masked_fill(~seen, -torch.inf)}

    def _log_places(self) -> dict[str, Tensor]:
        return self._by_place(self.entries, self.fallback._log_places())

    def _log_token_places(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        return self._by_place(self.entries.holding(ids), self.fallback._log_token_places(ids))

    def _by_place(self, entries: Entries, otherwise: dict[str, Tensor]) -> dict[str, Tensor]:
        seen = self.entries.any_visible()
        total = torch.where(seen, self.entries.log_mass(), 0.0)
        fallback = {name: shares.masked_fill(seen[:, None], -torch.inf) for name, shares in otherwise.items()}
        return fallback | {self.name: entries.by_place() - total[:, None]}
