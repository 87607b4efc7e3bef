"""The pairs that a task uses: of each part at most so many, always the same ones for a seed."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nextword.runtime.corpora import PARTS
from nextword.runtime.corpora.pairs import OtherFiles, PairReading, Side, leaks, read_pairs, sample
from nextword.settings.config import Seed, Settings


class PairsConfig(Settings):
    """What can be set of pairs of a source and a target; ``data`` must be."""

    data: str
    """A .jsonl file, a folder with train, validation and test .jsonl files, or other files that the task can read."""
    source_field: str | None = "source"
    """Field of a JSON line that holds the source."""
    target_field: str | None = "target"
    """Field that holds the target."""
    split_field: str | None = None
    """Field of one .jsonl file that says train, validation or test; None: it is split by a hash of the source."""
    validation_share: float = Field(default=0.05, gt=0, lt=1)
    """Share of one .jsonl file that validates."""
    test_share: float = Field(default=0.05, gt=0, lt=1)
    """Share that tests; the rest trains."""
    seed: Seed = 0
    """Seed of the split by hash, of the samples below and of random gaps."""
    train_pairs: int | None = Field(default=None, ge=1)
    """Training pairs at most, a sample; None: all."""
    validation_pairs: int | None = Field(default=500, ge=1)
    """Validation pairs at most."""
    test_pairs: int | None = Field(default=1000, ge=2)
    """Test pairs at most."""
    tuning_pairs: int = Field(default=100, ge=1)
    """Validation pairs on which a cache's temperature and weight are chosen."""
    max_source_tokens: int = Field(default=256, ge=8)
    """Longer sources are cut off at the end."""
    max_target_tokens: int = Field(default=64, ge=8)
    """Longer targets are cut off at the end."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; None: a byte-level BPE is trained on the training pairs."""
    vocabulary: int = Field(default=8000, ge=258)
    """Tokens of the trained BPE."""
    cache: str | None = None
    """Folder in which trained tokenizers are kept; None: trained again in each run (seconds)."""
    batch_size: int = Field(default=32, ge=1)
    """Pairs at a time in measurements."""

    def samples(self, other: OtherFiles) -> PairSamples:
        """The pairs; ``other`` reads files that hold no JSON lines."""
        reading = PairReading(
            source=Side("source", self.source_field), target=Side("target", self.target_field),
            split_field=self.split_field, validation_share=self.validation_share, test_share=self.test_share,
            seed=self.seed, other=other,
        )  # fmt: skip
        return PairSamples(Path(self.data), reading, (self.train_pairs, self.validation_pairs, self.test_pairs))


class PairSamples:
    """Pairs in three parts, ``train``, ``validation`` and ``test``, each cut to a size; ``available`` has all.

    Args:
        path: Where they lie.
        reading: How they are read; its seed is that of the samples.
        sizes: Pairs of each part at most; ``None``: all.
    """

    def __init__(self, path: Path, reading: PairReading, sizes: tuple[int | None, int | None, int | None]) -> None:
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
