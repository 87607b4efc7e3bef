"""Which columns of dense scores (N, V) are held here: all of them, or the share of one process among several.

Whoever sums over the tokens of a row, or picks one of them, asks the columns to do it. Nothing else of a loss depends
on where a column lies: products, bends, exponentials and their gradients are made of each column alone.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.top_k import top_k


class Columns:
    """All columns, V of V: every answer is there.

    ``SharedColumns`` answers the same for a share of them, together with the processes that hold the others.

    >>> import torch
    >>> scores = torch.tensor([[1.0, 3.0, 2.0]])
    >>> ALL_COLUMNS.peak(scores), ALL_COLUMNS.gather(scores, torch.tensor([[2]]))
    (tensor([[3.]]), tensor([[2.]]))
    """

    processes = 1
    """How many processes share the columns."""

    def peak(self, scores: Float[Tensor, "N _"]) -> Float[Tensor, "N 1"]:
        """The largest score of each row; no gradient."""
        return scores.amax(-1, keepdim=True)

    def total(self, part: Tensor) -> Tensor:
        """The sum over all columns, from that over those held here."""
        return part

    def gather(self, scores: Float[Tensor, "N _"], ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """The scores of K tokens a row."""
        return scores.gather(1, ids)

    def scatter_add_(
        self, scores: Float[Tensor, "N _"], ids: Int[Tensor, "N K"], values: Float[Tensor, "N K"]
    ) -> Float[Tensor, "N _"]:
        """Adds ``values`` to the scores of K tokens a row, in place."""
        return scores.scatter_add_(1, ids, values)

    def writable(
        self, ids: Int[Tensor, "N K"], values: Float[Tensor, "N K"], present: Bool[Tensor, "N K"]
    ) -> tuple[Int[Tensor, "N K"], Float[Tensor, "N K"], Bool[Tensor, "N K"]]:
        """Of values to write at tokens: the columns held here, the values, and which of them are to be written."""
        return ids, values, present

    def read_by_all(self, tensor: Tensor) -> Tensor:
        """What the columns are made of and every process has alike; its gradient is the sum of all processes'."""
        return tensor

    def top_k(self, scores: Float[Tensor, "N _"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
        """Values and tokens of the ``k`` largest scores of each row, in decreasing order; no gradient."""
        return top_k(scores, k)

    def whole(self, scores: Float[Tensor, "N _"]) -> Float[Tensor, "N V"]:
        """All columns."""
        return scores

    def from_holders(
        self, ids: Int[Tensor, "B K"], compute: Callable[[Int[Tensor, "B K"]], Float[Tensor, "B Q K"]]
    ) -> Float[Tensor, "B Q K"]:
        """What ``compute`` makes of the rows of some tokens, from the process that holds each."""
        return compute(ids)

    @property
    def tokens(self) -> Int[Tensor, "_"] | None:
        """Which tokens are held here; None for all in order."""
        return None

    def held(self, ids: Int[Tensor, "K"]) -> Int[Tensor, "_"]:
        """Those of some tokens that are held here."""
        return ids

    def rows(self, ids: Int[Tensor, "K"]) -> Int[Tensor, "K"]:
        """Where tokens that are held here lie among them."""
        return ids

    def of_group(self, ids: Int[Tensor, "K"]) -> Columns:
        """The columns of some tokens alone, as ``held`` leaves them; a token is then its place in ``ids``."""
        return self

    def rows_at_once(self, limit: int) -> int:
        """How many rows of scores are made at once, where memory here allows so many."""
        return limit


ALL_COLUMNS = Columns()
