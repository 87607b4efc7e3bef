"""The pairs that a task uses: of each part at most so many, always the same ones for a seed."""

from __future__ import annotations

from pathlib import Path

from nextword.corpora import PARTS
from nextword.corpora.pairs import Reading, leaks, read_pairs, sample


class PairSamples:
    """Pairs in three parts, each cut to a size.

    Args:
        path: Where they lie.
        reading: How they are read; its seed is that of the samples.
        sizes: Pairs to train, validate and test on at most; ``None``: all.

    Attributes:
        available: All pairs.
        train: Those that are trained on.
        validation: Those that validate.
        test: Those that test.
    """

    def __init__(self, path: Path, reading: Reading, sizes: tuple[int | None, int | None, int | None]) -> None:
        self.reading = reading
        self.available = read_pairs(path, reading)
        self.train, self.validation, self.test = (
            sample(getattr(self.available, part), size, reading.seed) for part, size in zip(PARTS, sizes, strict=True)
        )

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksum, and how many test pairs have a side that training has too."""
        available = self.available
        sizes: dict[str, int | float | str] = {}
        for part in PARTS:
            sizes[f"{part}_pairs"] = len(getattr(self, part))
            sizes[f"{part}_pairs_available"] = len(getattr(available, part))
        return {
            "source": available.source,
            "sha256": available.sha256,
            "split": available.split,
            **sizes,
            "empty_pairs_left_out": available.empty,
            **leaks(available.train, available.test, "leak", self.reading),
        }
