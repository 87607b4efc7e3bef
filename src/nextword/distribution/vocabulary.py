"""What a distribution needs of an output embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class Vocabulary(Protocol):
    """What turns states into scores of tokens: an output embedding with all that belongs to it."""

    @property
    def size(self) -> int:
        """V."""
        ...

    def __call__(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """A score for every token, in a new tensor that the caller may change."""
        ...

    def scores_of(self, states: Float[Tensor, "B Q D"], ids: Int[Tensor, "B K"]) -> Float[Tensor, "B Q K"]:
        """The scores of few tokens, the same for the Q states of a row, without those of all others."""
        ...

    def scores_of_groups(
        self,
        states: Sequence[Float[Tensor, "_R D"]],
        ids: Sequence[Int[Tensor, "_K"]],
        rows: Sequence[Int[Tensor, "_R"]],
    ) -> Sequence[Float[Tensor, "_R _K"]]:
        """For each group of states, the scores of its own group of tokens (R, K); no token is in two groups.

        Args:
            states: States of each group.
            ids: Tokens of each group.
            rows: Which of the N rows the states are of.
        """
        ...

    def __getitem__(self, rows: slice | Int[Tensor, "M"]) -> Vocabulary:
        """The vocabulary as it is asked from some of the rows (positions, or sequences); most are the same for all."""
        ...
