"""Keys that are appended while somebody talks or writes: so many at most, the oldest forgotten first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


class RecentKeys:
    """The last keys that were appended, in memory, numbered from the oldest one.

    A ring: what is appended takes the place of what is oldest.

    Args:
        width: Of a key.
        most: Keys that are kept.
        start: The token before every text.

    >>> recent = RecentKeys(width=1, most=2, start=0)
    >>> for place in range(3):
    ...     recent.append(torch.tensor([[float(place)]]), torch.tensor([place]))
    >>> recent.tokens_at(np.array([0, 1])), len(recent)
    (array([1, 2]), 2)
    """

    def __init__(self, width: int, most: int, start: int) -> None:
        if most < 1:
            raise ValueError(f"most: must be at least 1 ({most} given)")
        self.most, self.start = most, start
        self._keys = np.zeros((most, width), dtype=np.float32)
        self._tokens = np.zeros(most, dtype=np.int64)
        self._places = np.zeros((most, 2), dtype=np.int64)
        self._appended = self._texts = 0

    def __len__(self) -> int:
        return min(self._appended, self.most)

    @property
    def width(self) -> int:
        """Of a key."""
        return int(self._keys.shape[1])

    def append(self, keys: Float[Tensor, "T D"], tokens: Int[Tensor, "T"]) -> None:
        """Adds a text, as a document of its own.

        Args:
            keys: The states.
            tokens: What came after each.
        """
        kept = slice(max(0, len(tokens) - self.most), len(tokens))
        places = np.arange(kept.start, kept.stop)
        at = (self._appended + places) % self.most
        self._keys[at] = keys[kept].detach().float().cpu().numpy()
        self._tokens[at] = tokens[kept].cpu().numpy()
        self._places[at] = np.stack([np.full_like(places, self._texts), places], 1)
        self._appended += len(tokens)
        self._texts += 1

    def _at(self, numbers: np.ndarray) -> np.ndarray:
        oldest = max(0, self._appended - self.most)
        return (numbers + oldest) % self.most

    def blocks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "B D"]]]:
        """All keys in pieces, from the oldest on."""
        for begin in range(0, len(self), size):
            numbers = np.arange(begin, min(begin + size, len(self)))
            yield begin, torch.from_numpy(self.keys_at(numbers))

    def keys_at(self, numbers: Int[np.ndarray, "M"]) -> Float[np.ndarray, "M D"]:
        """Some keys."""
        found: np.ndarray = self._keys[self._at(numbers)]
        return found

    def tokens_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
        """The token after each of some keys."""
        found: np.ndarray = self._tokens[self._at(numbers)]
        return found

    def stretch(self, document: int, first: int, last: int) -> tuple[list[int], int]:
        """The tokens of a text from one place to another, as far as they are remembered, and the place of the first."""
        numbers = np.arange(len(self))
        of, place = self.places_at(numbers).T
        chosen = numbers[(of == document) & (place >= first) & (place <= last)]
        return self.tokens_at(chosen).tolist(), int(place[chosen[0]]) if len(chosen) else first

    def places_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M 2"]:
        """Text, counted from the first one that was appended, and place within it, of each of these tokens."""
        found: np.ndarray = self._places[self._at(numbers)]
        return found
