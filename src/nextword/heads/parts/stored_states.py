"""Stored tokens whose scores are similarities of states, made for as many positions as are asked at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.products.keys_in_place import Keys
from nextword.functional.stored_entries import Entries, TextRead
from nextword.heads.context import Layout


@dataclass(frozen=True)
class StoredStates:
    """Entries of N positions before their scores (N, S) are made.

    Args:
        ids: Token that each entry stands for, per sequence.
        row: Which sequence each position belongs to, ascending.
        queries: What each position looks for.
        keys: What each entry is found by.
        visible: Which entries each position may see.
        first_place: As in ``Entries``.
        stored: Likewise.
        text: Likewise.
    """

    ids: Int[Tensor, "B S"]
    row: Int[Tensor, "N"]
    queries: Float[Tensor, "N D"]
    keys: Keys
    visible: Bool[Tensor, "N S"]
    first_place: int
    stored: Bool[Tensor, "B S"]
    text: TextRead = "text"

    def map(self, change: Callable[[Tensor], Tensor]) -> StoredStates:
        """With ``change`` made to every tensor that has a row for each position."""
        queries, visible = change(self.queries), change(self.visible)
        return replace(self, row=change(self.row), queries=queries, visible=visible)

    def shared(self) -> Sequence[Tensor]:
        """The keys; those of a serving engine have no gradient."""
        return [self.keys] if isinstance(self.keys, Tensor) else []

    def with_scores(self, scores: Float[Tensor, "N S"]) -> Entries:
        """Entries with these scores."""
        return Entries(self.ids, self.row, scores, self.visible, self.first_place, self.stored, self.text)

    def scored(self) -> Entries:
        """Entries with the dot products of queries and keys, of the sequences alone that positions belong to."""
        if not len(self.row):
            return self.with_scores(self.queries.new_zeros(0, self.keys.shape[1]))
        first, last = int(self.row[0]), int(self.row[-1])
        layout = Layout(self.row - first, last - first + 1)
        return self.with_scores(layout.similarities(self.queries, self.keys[first : last + 1]))
