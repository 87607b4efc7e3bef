"""Retrieved tokens: entries that were looked up for each position by itself, in a store of other texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.stored_entries import Entries


@dataclass(frozen=True)
class Retrieved(Entries):
    """Entries of which every position has its own: K tokens that a search found for it, and where each one stands.

    A distribution takes them as it takes other entries: ``Interpolated`` mixes them with any distribution by a gate,
    ``Scores`` normalises them together with its own scores. Made by ``Retrieved.of``.

    Args:
        stands: Document, and place within it, of the token that each entry stands for.
    """

    stands: Int[Tensor, "N K 2"] = field(kw_only=True)

    @classmethod
    def of(
        cls,
        ids: Int[Tensor, "N K"],
        scores: Float[Tensor, "N K"],
        visible: Bool[Tensor, "N K"],
        stands: Int[Tensor, "N K 2"],
    ) -> Retrieved:
        """Entries for N positions.

        Args:
            ids: The tokens; several entries of a position may hold one token.
            scores: Log of the mass of each; any constant may be added to a row where they are not normalised jointly.
            visible: False where fewer than K were found.
            stands: Document, and place within it, of each.
        """
        return cls(ids, torch.arange(len(ids), device=ids.device), scores, visible, text="store", stands=stands)

    def map(self, change: Callable[[Tensor], Tensor]) -> Retrieved:
        """With ``change`` made to every tensor; all have a row for each position."""
        ids = change(self.ids)
        row = torch.arange(len(ids), device=ids.device)
        scores, visible, stands = change(self.scores), change(self.visible), change(self.stands)
        return replace(self, ids=ids, row=row, scores=scores, visible=visible, stands=stands)


def in_store(stored: Mapping[str, object]) -> dict[str, Int[Tensor, "N K 2"]]:
    """By the name of those entries that were retrieved, document and place of each."""
    return {name: entries.stands for name, entries in stored.items() if isinstance(entries, Retrieved)}
