"""The texts of packed rows, each in a row of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor


@dataclass(frozen=True)
class TextRows:
    """Where each place of a packed batch lies once every text has a row of its own; the order of places stays.

    Args:
        row: Row of the text at each place.
        place: Place in that text.
        count: How many texts there are.
        longest: Places of the longest one.
    """

    row: Int[Tensor, "B T"]
    place: Int[Tensor, "B T"]
    count: int
    longest: int

    @classmethod
    def of(cls, begins: Bool[Tensor, "B T"]) -> TextRows:
        """From where texts begin; every row begins with one.

        >>> found = TextRows.of(torch.tensor([[True, False, True], [True, False, False]]))
        >>> found.laid_out(torch.tensor([[3, 4, 5], [6, 7, 8]]))
        tensor([[3, 4, 0],
                [5, 0, 0],
                [6, 7, 8]])
        """
        at = torch.arange(begins.shape[1], device=begins.device).expand(begins.shape)
        place = at - at.masked_fill(~begins, 0).cummax(1).values
        row = begins.flatten().cumsum(0).view_as(place) - 1
        return cls(row, place, int(row[-1, -1]) + 1, int(place.max()) + 1)

    @property
    def ends(self) -> Bool[Tensor, "B T"]:
        """The last place of each text."""
        return torch.nn.functional.pad(self.place[:, 1:] == 0, (0, 1), value=True)

    def laid_out(self, packed: Shaped[Tensor, "B T ..."]) -> Shaped[Tensor, "R L ..."]:
        """What stands at each place of the batch, text by text; 0 or False behind a text that is not the longest."""
        empty = packed.new_zeros(self.count, self.longest, *packed.shape[2:])
        return empty.index_put((self.row, self.place), packed)
