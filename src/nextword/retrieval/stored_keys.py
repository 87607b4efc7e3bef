"""A finished datastore, opened as it lies on the disk: it may be larger than the memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.retrieval.shard import Shard
from nextword.retrieval.store_manifest import PROBE, StoreManifest, manifest_of

_OFF = 0.05
"""By which share of their size states may be off: bfloat16 rounds to a part of it, another model is far beyond."""


class StoredKeys:
    """K keys with the token that came after each, numbered through all shards.

    Args:
        folder: Of a finished store.

    Raises:
        ValueError: The store is not finished, or one of its files is missing or cut off.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest: StoreManifest = manifest_of(self.folder)
        origin = self.manifest.origin
        self.start = origin.start
        self.shards = [
            Shard.open(self.folder, number, keys, origin.width, origin.precision)
            for number, keys in enumerate(self.manifest.shards)
        ]
        self._firsts = np.cumsum([0, *self.manifest.shards])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @property
    def width(self) -> int:
        """Of a key."""
        return self.manifest.origin.width

    def blocks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "B D"]]]:
        """All keys in pieces of at most ``size``, each with the number of its first."""
        for first, shard in zip(self._firsts.tolist(), self.shards, strict=False):
            for begin in range(0, len(shard.tokens), size):
                yield first + begin, shard.block(slice(begin, begin + size))

    def keys_at(self, numbers: Int[np.ndarray, "M"]) -> Float[np.ndarray, "M D"]:
        """Some keys, as float32."""
        found = np.empty((len(numbers), self.width), dtype=np.float32)
        for shard, rows, within in self._by_shard(numbers):
            found[rows] = shard.keys_at(within)
        return found

    def tokens_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
        """The token after each of some keys."""
        found = np.empty(len(numbers), dtype=np.int64)
        for shard, rows, within in self._by_shard(numbers):
            found[rows] = shard.tokens[within]
        return found

    def places_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M 2"]:
        """Document, and place within it, of the token after each of some keys."""
        found = np.empty((len(numbers), 2), dtype=np.int64)
        for shard, rows, within in self._by_shard(numbers):
            found[rows] = shard.places[within]
        return found

    def _by_shard(self, numbers: Int[np.ndarray, "M"]) -> Iterator[tuple[Shard, np.ndarray, np.ndarray]]:
        of = np.searchsorted(self._firsts, numbers, side="right") - 1
        for number in np.unique(of).tolist():
            rows = np.flatnonzero(of == number)
            yield self.shards[number], rows, numbers[rows] - self._firsts[number]

    def stretch(self, document: int, first: int, last: int) -> tuple[list[int], int]:
        """The tokens of a document from one place to another, as far as there are any, and the place of the first."""
        first = max(0, first)
        return self.tokens_at(self._numbers_of(document)[first : last + 1]).tolist(), first

    def _numbers_of(self, document: int) -> np.ndarray:
        """The keys of a document, which stand in order."""
        begin, end = (self._first_from(limit) for limit in (document, document + 1))
        return np.arange(begin, end)

    def _first_from(self, document: int) -> int:
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.places_at(np.array([middle]))[0, 0] >= document else (middle + 1, high)
        return low

    def expect_states(self, states: Float[Tensor, "P D"]) -> None:
        """Refuses a model that makes other states of the probe's tokens.

        Raises:
            ValueError: It is another model or version of it.
        """
        probe = torch.from_numpy(np.load(self.folder / PROBE))
        own = states.detach().float().cpu()
        far = own.shape != probe.shape or float((own - probe).norm()) > _OFF * float(probe.norm())
        if far:
            raise ValueError(
                f"store: must be made with this very model ('{self.folder}' was made with "
                f"'{self.manifest.origin.model}', whose states are others); build a store with this one"
            )
