"""What a distribution needs of an output embedding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.vocab_shard import VocabShard
from nextword.functional.weight_gradient import FusedBackward


@runtime_checkable
class Vocabulary(Protocol):
    """What turns states into scores of tokens: an output embedding with all that belongs to it.

    Dense scores have a column for each token, or for those tokens whose rows of the embedding this process holds
    (``columns``).

    ``fused_backward`` is passed on to the products of ``nextword.functional.products``, which then give the embedding's
    gradient to its collector. A vocabulary that makes its products otherwise leaves it alone.
    """

    @property
    def size(self) -> int:
        """V."""

    @property
    def columns(self) -> VocabShard:
        """Which columns dense scores have."""

    def __call__(
        self, states: Float[Tensor, "N D"], fused_backward: FusedBackward | None = None
    ) -> Float[Tensor, "N V"]:
        """A score for every token, in a new tensor that the caller may change."""

    def each(
        self, states: Sequence[Float[Tensor, "_R D"]], fused_backward: FusedBackward | None = None
    ) -> Sequence[Float[Tensor, "_R V"]]:
        """The same for several sets of states that belong to the same rows, in one pass over the embedding."""

    def scores_of(
        self, states: Float[Tensor, "B Q D"], ids: Int[Tensor, "B K"], fused_backward: FusedBackward | None = None
    ) -> Float[Tensor, "B Q K"]:
        """The scores of few tokens, the same for the Q states of a row, without those of all others."""

    def scores_of_groups(
        self,
        states: Sequence[Float[Tensor, "_R D"]],
        ids: Sequence[Int[Tensor, "_K"]],
        rows: Sequence[Int[Tensor, "_R"]],
        fused_backward: FusedBackward | None = None,
    ) -> Sequence[Float[Tensor, "_R _K"]]:
        """For each group of states, of some of the N rows, the scores of its own tokens; no token is in two groups."""

    def map(self, change: Callable[[Tensor], Tensor]) -> Vocabulary:
        """The same with ``change`` made to what has a row for each position (or sequence); most have no such thing."""

    def shared(self) -> Sequence[Tensor]:
        """What may have a gradient and is the same for all rows: the embedding itself."""


# -- Shifted: a vocabulary whose scores each sequence shifts in a way of its own.


@dataclass(frozen=True)
class Shifted:
    """``vocabulary(states) + shift[row]``: the same vector of V numbers is added at every position of a sequence.

    For what is known of a whole sequence: B vectors are kept, not N, and which sequence each row belongs to.
    """

    vocabulary: Vocabulary
    shift: Float[Tensor, "B V"]
    row: Int[Tensor, "N"]

    @property
    def size(self) -> int:
        return self.vocabulary.size

    @property
    def columns(self) -> VocabShard:
        return self.vocabulary.columns

    def map(self, change: Callable[[Tensor], Tensor]) -> Shifted:
        return replace(self, vocabulary=self.vocabulary.map(change), row=change(self.row))

    def shared(self) -> list[Tensor]:
        return [*self.vocabulary.shared(), self.shift]

    def __call__(self, states: Tensor, fused_backward: FusedBackward | None = None) -> Tensor:
        return self.each([states], fused_backward)[0]

    def each(self, states: Sequence[Tensor], fused_backward: FusedBackward | None = None) -> list[Tensor]:
        return [scores + self.shift[self.row] for scores in self.vocabulary.each(states, fused_backward)]

    def scores_of(self, states: Tensor, ids: Tensor, fused_backward: FusedBackward | None = None) -> Tensor:
        return self.vocabulary.scores_of(states, ids, fused_backward) + self.shift[self.row[:, None], ids][:, None]

    def scores_of_groups(
        self,
        states: Sequence[Tensor],
        ids: Sequence[Tensor],
        rows: Sequence[Tensor],
        fused_backward: FusedBackward | None = None,
    ) -> list[Tensor]:
        products = self.vocabulary.scores_of_groups(states, ids, rows, fused_backward)
        # the group's columns first: they are few, and the rows are many
        return [
            scores + self.shift.index_select(1, group)[self.row[positions]]
            for scores, group, positions in zip(products, ids, rows, strict=True)
        ]
