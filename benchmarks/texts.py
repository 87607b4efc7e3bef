"""Synthetic texts with the token frequencies and repetitions of real text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nextword.functional.frequency import TokenCounts


def law(size: int) -> np.ndarray:
    """Counts of 100 million tokens by Zipf-Mandelbrot, s = 1.1, q = 5, in random order of ids."""
    weights = 1 / (np.arange(1, size + 1) + 5.0) ** 1.1
    counts = np.round(1e8 * weights / weights.sum()).astype(np.int64)
    return np.random.default_rng(0).permutation(counts)


@contextmanager
def counts_file(size: int) -> Iterator[str]:
    """A file with these counts, for as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.npz"
        TokenCounts(law(size), None, "Zipf-Mandelbrot").save(path)
        yield str(path)


def drawn(size: int, batch: int, length: int, seed: int = 0) -> Tensor:
    """Token ids (batch, length) by the law, each on its own."""
    chance = torch.Generator().manual_seed(seed)
    frequencies = torch.from_numpy(law(size)).double()
    return torch.multinomial(frequencies, batch * length, replacement=True, generator=chance).view(batch, length)


def repeating(size: int, batch: int, length: int, seed: int = 0) -> Tensor:
    """Token ids (batch, length) by the law, the second half taken from the first: what pointer heads find in a text."""
    ids, half = drawn(size, batch, length, seed), length // 2
    positions = torch.randint(0, half, (batch, length - half), generator=torch.Generator().manual_seed(seed + 1))
    ids[:, half:] = ids.gather(1, positions)
    return ids
