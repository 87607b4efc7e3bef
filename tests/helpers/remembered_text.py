"""A random text that is read through a head cache piece by piece, beside what plain concatenation holds of it."""

from __future__ import annotations

import torch
from torch import Tensor

from nextword.model.head_cache.head_cache import HeadCache

BEFORE = 2
"""Places of the window."""


class Text:
    """Two streams and a window of random places, fed to a head cache piece by piece and concatenated beside it."""

    def __init__(self, head_cache: HeadCache, rows: int = 3) -> None:
        self.head_cache, self.generator = head_cache, torch.Generator().manual_seed(0)
        self.ids, self.keys = torch.zeros(rows, 0, dtype=torch.long), torch.zeros(rows, 0, 4)

    def read(self, places: int) -> None:
        """One pass; everything it gives back is compared."""
        rows, past = self.ids.shape
        ids = torch.randint(-1, 9, (rows, places), generator=self.generator)  # some unknown
        valid = torch.rand(rows, places, generator=self.generator) < 0.8
        keys = torch.randn(rows, places, 4, generator=self.generator)
        self.ids, self.keys = torch.cat([self.ids, ids], 1), torch.cat([self.keys, keys], 1)
        window = self.head_cache.preceded("window", keys, BEFORE)
        shown = torch.cat([torch.zeros(rows, BEFORE, 4), self.keys], 1)[:, -BEFORE - places :]
        assert torch.equal(window, shown)
        first = self.head_cache.remember(ids, valid, {"keys": keys})
        memory = self.head_cache.recall()
        end = past + places
        assert first == past
        assert self.head_cache.length == end
        assert torch.equal(memory.ids[:, :end], self.ids)
        assert torch.equal(memory.valid[:, past:end], valid & (ids >= 0))
        assert torch.equal(memory.streams["keys"][:, :end], self.keys)
        assert not memory.valid[:, end:].any()

    def reorder(self, index: Tensor) -> None:
        self.head_cache.reorder(index)
        self.ids, self.keys = self.ids[index], self.keys[index]
