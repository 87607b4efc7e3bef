"""What a distribution needs of an output embedding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.chunked.weight_gradient import SinglePass
from nextword.functional.score_columns import Columns


@runtime_checkable
class Vocabulary(Protocol):
    """What turns states into scores of tokens: an output embedding with all that belongs to it.

    Dense scores have a column for each token, or for those tokens whose rows of the embedding this process holds
    (``columns``).

    ``single_pass`` is handed on to the products of ``nextword.functional.products``, which then give the embedding's
    gradient to its collector. A vocabulary that makes its products otherwise leaves it alone.
    """

    @property
    def size(self) -> int:
        """V."""
        ...

    @property
    def columns(self) -> Columns:
        """Which columns dense scores have."""
        ...

    def __call__(self, states: Float[Tensor, "N D"], single_pass: SinglePass | None = None) -> Float[Tensor, "N V"]:
        """A score for every token, in a new tensor that the caller may change."""
        ...

    def each(
        self, states: Sequence[Float[Tensor, "_R D"]], single_pass: SinglePass | None = None
    ) -> Sequence[Float[Tensor, "_R V"]]:
        """The same for several sets of states that belong to the same rows, in one pass over the embedding."""
        ...

    def scores_of(
        self, states: Float[Tensor, "B Q D"], ids: Int[Tensor, "B K"], single_pass: SinglePass | None = None
    ) -> Float[Tensor, "B Q K"]:
        """The scores of few tokens, the same for the Q states of a row, without those of all others."""
        ...

    def scores_of_groups(
        self,
        states: Sequence[Float[Tensor, "_R D"]],
        ids: Sequence[Int[Tensor, "_K"]],
        rows: Sequence[Int[Tensor, "_R"]],
        single_pass: SinglePass | None = None,
    ) -> Sequence[Float[Tensor, "_R _K"]]:
        """For each group of states, the scores of its own group of tokens (R, K); no token is in two groups.

        Args:
            states: States of each group.
            ids: Tokens of each group.
            rows: Which of the N rows the states are of.
            single_pass: As above.
        """
        ...

    def map(self, change: Callable[[Tensor], Tensor]) -> Vocabulary:
        """The same with ``change`` made to what has a row for each position (or sequence); most have no such thing."""
        ...

    def shared(self) -> Sequence[Tensor]:
        """What may have a gradient and is the same for all rows: the embedding itself."""
        ...
