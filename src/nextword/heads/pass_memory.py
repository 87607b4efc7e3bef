"""The contract between a head's memory and one forward pass: new places are written, whole texts are read.

Every place of a text has a slot, and what a head keeps of the place (its token, its streams) lies there. Who says which
slot that is differs:

- A ``History`` (``history.py``) rides in an ordinary KV cache. A row of the pass is a text, and its slots lie one
  behind the other.
- ``PagedMemory`` (``slots.py``) belongs to a serving engine, which packs the new places of many requests side by side
  and keeps the past of each in blocks. A row of the pass is one new place.

A head is asked in the same way with either, and does not know which it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from nextword.heads.context import Memory

IDS, VALID = "ids", "valid"
"""Streams that every memory has: the token at each place, and whether it is a known token and no padding."""

DOCUMENT = "document"
"""Stream of a memory of several documents: the number of the one at each place."""


class PassMemory(ABC):
    """What one forward pass does with the memory of a head.

    In each pass ``preceded`` is called for every window of the head, then ``remember`` once; after it ``recall`` gives
    the texts with the new places in them.
    """

    def remember(self, ids: Tensor, valid: Tensor, streams: Mapping[str, Tensor]) -> int | Tensor:
        """Writes the new places of this pass.

        Args:
            ids: Tokens (B, T), negative where unknown.
            valid: False at padding (B, T).
            streams: What the head keeps of each place, (B, T, ...) by name; the same names in every pass.

        Returns:
            The place of each row's first new token in its text: one number, or (B,).
        """
        # a copy: the caller may write the next tokens where these are
        return self.write({IDS: ids.clone(), VALID: valid & (ids >= 0), **streams})

    @abstractmethod
    def recall(self) -> Memory:
        """The texts so far, a row for each, the new places in them."""

    @abstractmethod
    def write(self, new: Mapping[str, Tensor]) -> int | Tensor:
        """Writes the new places (B, T, ...) of all streams; returns the place of the first of them."""

    @abstractmethod
    def preceded(self, name: str, new: Tensor, places: int) -> Tensor:
        """New places of a window with those just before them, zeros before the start.

        Args:
            name: Of the window.
            new: What the head computes from each new place (B, T, ...).
            places: How many earlier places come back in front of them; the same in every pass.

        Returns:
            (B, places + T, ...).

        Raises:
            ValueError: What is kept of this window does not reach back so far.
        """
