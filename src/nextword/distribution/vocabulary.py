"""The interface through which a distribution computes scores with an output embedding."""

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
    """Computes token scores from states: an output embedding with its bias and scaling.

    Scores have one column per token or, with a sharded embedding, one per token on this process (``columns``).

    A vocabulary passes ``fused_backward``, which collects the embedding's gradient, to the products of
    ``nextword.functional.products``. A vocabulary that computes products in another way ignores ``fused_backward``.
    """

    @property
    def size(self) -> int:
        """The vocabulary size V."""

    @property
    def columns(self) -> VocabShard:
        """The columns of the scores on this process."""

    def __call__(
        self, states: Float[Tensor, "N D"], fused_backward: FusedBackward | None = None
    ) -> Float[Tensor, "N V"]:
        """A score for every token, in a new tensor that the caller may change."""

    def each(
        self, states: Sequence[Float[Tensor, "_R D"]], fused_backward: FusedBackward | None = None
    ) -> Sequence[Float[Tensor, "_R V"]]:
        """Scores for each tensor in ``states`` (one row per position), computed in one pass over the embedding."""

    def scores_of(
        self, states: Float[Tensor, "B Q D"], ids: Int[Tensor, "B K"], fused_backward: FusedBackward | None = None
    ) -> Float[Tensor, "B Q K"]:
        """Scores of only K tokens per sequence, for each of its Q states."""

    def scores_of_groups(
        self,
        states: Sequence[Float[Tensor, "_R D"]],
        ids: Sequence[Int[Tensor, "_K"]],
        rows: Sequence[Int[Tensor, "_R"]],
        fused_backward: FusedBackward | None = None,
    ) -> Sequence[Float[Tensor, "_R _K"]]:
        """For each group g, scores of the tokens ``ids[g]`` for ``states[g]``, the states of the rows ``rows[g]``."""

    def map(self, change: Callable[[Tensor], Tensor]) -> Vocabulary:
        """The same vocabulary with ``change`` applied to tensors with one row per position or sequence, if any."""

    def shared(self) -> Sequence[Tensor]:
        """Tensors shared by all rows that may need a gradient: the embedding."""


# -- Shifted: a vocabulary with a separate shift of the scores for each sequence.


@dataclass(frozen=True)
class Shifted:
    """``vocabulary(states) + shift[row]``: adds one vector of V numbers at every position of a sequence.

    ``row`` is the sequence index of each of N positions, so that B vectors are stored instead of N.
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
        # select the group's columns first, because they are few and the rows are many
        return [
            scores + self.shift.index_select(1, group)[self.row[positions]]
            for scores, group, positions in zip(products, ids, rows, strict=True)
        ]
