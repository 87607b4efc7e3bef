"""Shifted: a vocabulary whose scores each sequence shifts in a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.vocabulary import Vocabulary


@dataclass(frozen=True)
class Shifted:
    """``vocabulary(states) + shift[row]``: the same vector of V numbers is added at every position of a sequence.

    Whoever knows something of a whole sequence says it once for B sequences, not for N positions.

    Args:
        vocabulary: Turns states into scores.
        shift: What each sequence adds to them.
        row: Which sequence each of the N rows belongs to.
    """

    vocabulary: Vocabulary
    shift: Float[Tensor, "B V"]
    row: Int[Tensor, "N"]

    @property
    def size(self) -> int:
        """V."""
        return self.vocabulary.size

    def map(self, change: Callable[[Tensor], Tensor]) -> Shifted:
        """With ``change`` made to the sequence of each row."""
        return replace(self, vocabulary=self.vocabulary.map(change), row=change(self.row))

    def shared(self) -> list[Tensor]:
        """The embedding and the shift."""
        return [*self.vocabulary.shared(), self.shift]

    def __call__(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """Shifted scores of every token."""
        return self.each([states])[0]

    def each(self, states: Sequence[Float[Tensor, "N D"]]) -> list[Float[Tensor, "N V"]]:
        """Shifted scores of every token, for several states of each row."""
        return [scores + self.shift[self.row] for scores in self.vocabulary.each(states)]

    def scores_of(self, states: Float[Tensor, "N Q D"], ids: Int[Tensor, "N K"]) -> Float[Tensor, "N Q K"]:
        """Shifted scores of few tokens."""
        return self.vocabulary.scores_of(states, ids) + self.shift[self.row[:, None], ids][:, None]

    def scores_of_groups(
        self,
        states: Sequence[Float[Tensor, "_R D"]],
        ids: Sequence[Int[Tensor, "_K"]],
        rows: Sequence[Int[Tensor, "_R"]],
    ) -> list[Float[Tensor, "_R _K"]]:
        """Shifted scores of each group's own tokens."""
        found = self.vocabulary.scores_of_groups(states, ids, rows)
        # the group's columns first: they are few, and the rows are many
        return [
            scores + self.shift.index_select(1, group)[self.row[asked]]
            for scores, group, asked in zip(found, ids, rows, strict=True)
        ]
