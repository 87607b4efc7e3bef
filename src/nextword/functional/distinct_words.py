"""The distinct tokens of each sequence: what a partition scores once, however often a token occurs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Words:
    """Distinct valid tokens of B sequences, in U columns; a sequence with fewer words leaves columns empty.

    Args:
        ids: Token of each column; 0 where the column is empty.
        first: First place that holds it; S, past the last place, where the column is empty.
        column: Column of the token at each place; 0 where the place is not valid.
        valid: Which places count.
    """

    ids: Int[Tensor, "B U"]
    first: Int[Tensor, "B U"]
    column: Int[Tensor, "B S"]
    valid: Bool[Tensor, "B S"]

    @classmethod
    def of(cls, ids: Int[Tensor, "B S"], valid: Bool[Tensor, "B S"]) -> Words:
        """The words of sequences of tokens.

        >>> words = Words.of(torch.tensor([[7, 3, 7, 9]]), torch.tensor([[True, True, True, False]]))
        >>> words.ids, words.first, words.column
        (tensor([[3, 7]]), tensor([[1, 0]]), tensor([[1, 0, 1, 0]]))
        """
        beyond = torch.iinfo(torch.long).max  # sorts places that do not count to the end
        ordered, place = torch.where(valid, ids, beyond).sort(dim=1, stable=True)
        starts = torch.ones_like(valid)
        starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        rank = starts.cumsum(1) - 1
        counted = ordered != beyond
        # one column more than there can be words takes what does not count, and is cut off
        size = ids.shape[1] if torch.compiler.is_compiling() else _column_count(rank, counted)
        target = torch.where(counted, rank, size)
        words = ids.new_zeros(len(ids), size + 1).scatter(1, target, ordered)
        first = ids.new_full((len(ids), size + 1), ids.shape[1]).scatter_reduce(1, target, place, "amin")
        column = torch.zeros_like(ids).scatter(1, place, rank.masked_fill(~counted, 0))
        return cls(words[:, :size], first[:, :size], column, valid)

    def seen(self, row: Int[Tensor, "N"], before: Int[Tensor, "N"]) -> Bool[Tensor, "N U"]:
        """Which words occur in each position's sequence at a place smaller than ``before``."""
        return self.first[row] < before[:, None]

    def occurring(self, row: Int[Tensor, "N"]) -> Bool[Tensor, "N U"]:
        """Which words occur in each position's sequence at all."""
        return (self.first < self.valid.shape[1])[row]

    def at(self, visible: Bool[Tensor, "N S"], row: Int[Tensor, "N"]) -> Bool[Tensor, "N U"]:
        """Which words stand at one of the places that each position sees; places that do not count are no word's."""
        there = visible & self.valid[row]
        found = there.new_zeros((len(row), self.ids.shape[1]), dtype=torch.uint8)
        return found.scatter_reduce(1, self.column[row], there.to(torch.uint8), "amax").bool()

    def mean(
        self, scores: Float[Tensor, "N S"], visible: Bool[Tensor, "N S"], row: Int[Tensor, "N"]
    ) -> Float[Tensor, "N U"]:
        """Mean score over the visible places that hold each word; 0 where none does."""
        column = self.column[row]
        shape = (len(row), self.ids.shape[1])
        total = scores.new_zeros(shape).scatter_add(1, column, scores.masked_fill(~visible, 0.0))
        count = scores.new_zeros(shape).scatter_add(1, column, visible.to(scores.dtype))
        return total / count.clamp_min(1.0)


@dataclass(frozen=True)
class WordScores:
    """For each of N positions, scores of the distinct words of its sequence.

    Args:
        words: The words.
        row: Which sequence each position belongs to.
        scores: Score of each word as seen from each position.
        present: Which words each position sees; the scores of the others count nowhere.
    """

    words: Words
    row: Int[Tensor, "N"]
    scores: Float[Tensor, "N U"]
    present: Bool[Tensor, "N U"]

    @property
    def ids(self) -> Int[Tensor, "N U"]:
        """The words of each position's sequence."""
        return self.words.ids[self.row]

    def map(self, change: Callable[[Tensor], Tensor]) -> WordScores:
        """With ``change`` made to every tensor that has a row for each position."""
        return WordScores(self.words, change(self.row), change(self.scores), change(self.present))


def _column_count(rank: Tensor, counted: Tensor) -> int:
    """Columns that are needed, at least one."""
    return int(rank.masked_fill(~counted, 0).max()) + 1 if rank.numel() else 1
