"""Shifted: a vocabulary whose scores each sequence shifts in a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.vocabulary import Vocabulary
from nextword.functional.chunked.weight_gradient import SinglePass
from nextword.functional.score_columns import Columns


@dataclass(frozen=True)
class Shifted:
    """``vocabulary(states) + shift[row]``: the same vector of V numbers is added at every position of a sequence.

    For what is known of a whole sequence: B vectors are kept, not N.

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

    @property
    def columns(self) -> Columns:
        """Those of the vocabulary."""
        return self.vocabulary.columns

    def map(self, change: Callable[[Tensor], Tensor]) -> Shifted:
        """With ``change`` made to the sequence of each row."""
        return replace(self, vocabulary=self.vocabulary.map(change), row=change(self.row))

    def shared(self) -> list[Tensor]:
        """The embedding and the shift."""
        return [*self.vocabulary.shared(), self.shift]

    def __call__(self, states: Float[Tensor, "N D"], single_pass: SinglePass | None = None) -> Float[Tensor, "N V"]:
        """Shifted scores of every token."""
        return self.each([states], single_pass)[0]

    def each(
        self, states: Sequence[Float[Tensor, "N D"]], single_pass: SinglePass | None = None
    ) -> list[Float[Tensor, "N V"]]:
        """Shifted scores of every token, for several states of each row."""
        return [scores + self.shift[self.row] for scores in self.vocabulary.each(states, single_pass)]

    def scores_of(
        self, states: Float[Tensor, "N Q D"], ids: Int[Tensor, "N K"], single_pass: SinglePass | None = None
    ) -> Float[Tensor, "N Q K"]:
        """Shifted scores of few tokens."""
        return self.vocabulary.scores_of(states, ids, single_pass) + self.shift[self.row[:, None], ids][:, None]

    def scores_of_groups(
        self,
        states: Sequence[Float[Tensor, "_R D"]],
        ids: Sequence[Int[Tensor, "_K"]],
        rows: Sequence[Int[Tensor, "_R"]],
        single_pass: SinglePass | None = None,
    ) -> list[Float[Tensor, "_R _K"]]:
        """Shifted scores of each group's own tokens."""
        products = self.vocabulary.scores_of_groups(states, ids, rows, single_pass)
        # the group's columns first: they are few, and the rows are many
        return [
            scores + self.shift.index_select(1, group)[self.row[positions]]
            for scores, group, positions in zip(products, ids, rows, strict=True)
        ]
