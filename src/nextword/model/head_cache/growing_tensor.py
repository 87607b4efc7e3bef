"""A tensor that grows along its second dimension in every step, without being copied in every step."""

from __future__ import annotations

import torch
from jaxtyping import Shaped
from torch import Tensor

from nextword.functional.row_alignment import aligned_at_end

_ROOM, _SHARE = 64, 4
"""Places of room behind a grown stream: at least so many, and one for every so many places that it holds."""


class GrowingTensor:
    """Places (B, S, ...) with room for more behind them: a new place is written there and no earlier one is copied.

    Whoever was given ``places`` before keeps seeing the same values: what was handed out is never written again.
    So a stream that was cut back grows into a new block, and while gradients are recorded nothing is written in place.

    Args:
        places: What the stream holds at first; it is not copied before it grows.

    >>> stream = GrowingTensor(torch.zeros(1, 2))
    >>> stream.append(torch.ones(1, 1))
    >>> stream.places
    tensor([[0., 0., 1.]])
    """

    def __init__(self, places: Shaped[Tensor, "B S ..."]) -> None:
        self._hold(places)

    def _hold(self, places: Tensor) -> None:
        self.places = self._block = places
        self._end = places.shape[1]

    def __getstate__(self) -> Tensor:
        # without the room, which a copy or a file need not have
        return self.places.clone()

    def __setstate__(self, places: Tensor) -> None:
        self._hold(places)

    def append(self, new: Tensor, at_most: int | None = None) -> None:
        """Adds places.

        Args:
            new: The new places (B, T, ...).
            at_most: How many of the last places to keep, more than T; None: all.
        """
        start = 0 if at_most is None else max(0, self.places.shape[1] + new.shape[1] - at_most)
        if not self._takes(new):
            self._hold(torch.cat([self.places[:, start:], new], 1))
            return
        foreign = self._block.is_inference() != torch.is_inference_mode_enabled()  # one must not write into the other
        if foreign or self._end + new.shape[1] > self._block.shape[1]:
            self._move(self.places[:, start:], new.shape[1])
            start = 0
        begin = self._end - self.places.shape[1] + start
        self._block[:, self._end : self._end + new.shape[1]] = new
        self._end += new.shape[1]
        self.places = self._block[:, begin : self._end]

    def _takes(self, new: Tensor) -> bool:
        """Whether it can be written into a block; a graph, recorded or traced, must be given a new tensor."""
        same = self.places.dtype == new.dtype and len(self.places) == len(new)
        return same and not torch.is_grad_enabled() and not torch.compiler.is_compiling()

    def _move(self, kept: Tensor, more: int) -> None:
        """Into a new block, with the places that are kept at its beginning."""
        held = kept.shape[1]
        size = held + more + max(_ROOM, held // _SHARE)
        self._block = kept.new_empty(len(kept), size, *kept.shape[2:])
        self._block[:, :held] = kept
        self.places, self._end = self._block[:, :held], held

    def detach(self) -> None:
        """Lets go of the graph in which the places were made."""
        if self.places.requires_grad:
            self._hold(self.places.detach())

    def crop(self, change: int) -> None:
        """Forgets the last ``-change`` places, a negative number of them."""
        self._hold(self.places[:, :change])

    def select(self, index: Tensor) -> None:
        """Sequence i becomes what sequence ``index[i]`` was."""
        index, held = index.to(self.places.device), self.places.shape[1]
        if torch.is_grad_enabled():
            self._hold(self.places.index_select(0, index))
            return
        block = self.places.new_empty(len(index), held + max(_ROOM, held // _SHARE), *self.places.shape[2:])
        self.places = torch.index_select(self.places, 0, index, out=block[:, :held])
        self._block, self._end = block, held

    def align(self, dropped: Tensor, length: int) -> None:
        """The last ``length`` places of each sequence without its ``dropped`` last ones."""
        self._hold(aligned_at_end(self.places, dropped, length))

    def repeat(self, repeats: int) -> None:
        """Every sequence ``repeats`` times, copies side by side."""
        self._hold(self.places.repeat_interleave(repeats, 0))
