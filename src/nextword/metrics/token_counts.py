"""How often each token occurs in a text, counted here or read from a file."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from nextword.metrics.units import Unit


@dataclass(frozen=True)
class TokenCounts:
    """Tokens and their counts; a token that is not among them was never counted."""

    ids: Int[np.ndarray, "K"]
    """Token ids, ascending."""
    counts: Int[np.ndarray, "K"]
    """How often each occurs."""
    source: str
    """Where they are from, for a report."""

    @classmethod
    def of(cls, counted: Mapping[int, int], source: str) -> TokenCounts:
        """From a mapping of ids to counts.

        >>> TokenCounts.of({7: 2, 3: 1}, "a text").ids.tolist()
        [3, 7]
        """
        ids = np.array(sorted(counted), dtype=np.int64)
        return cls(ids, np.array([counted[int(token)] for token in ids], dtype=np.int64), source)

    @classmethod
    def load(cls, path: str, where: str) -> TokenCounts:
        """From a .npy file of one whole number for each token id.

        Args:
            path: The file.
            where: The setting that names it, for messages.

        Raises:
            ValueError: There is no such file, or it holds something else.
        """
        try:
            counts = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as fault:
            raise ValueError(f"{where}: cannot read '{path}' as a .npy file: {fault}") from None
        if not isinstance(counts, np.ndarray) or counts.ndim != 1 or not np.issubdtype(counts.dtype, np.integer):
            kind = f"{counts.dtype} of shape {counts.shape}" if isinstance(counts, np.ndarray) else "several arrays"
            raise ValueError(
                f"{where}: '{path}' must be one list of whole numbers, the count of each token id; is {kind}"
            )
        if not len(counts) or counts.min() < 0 or not counts.any():
            raise ValueError(f"{where}: '{path}' must have counts from 0, and some above")
        return cls(np.arange(len(counts)), counts.astype(np.int64), Path(path).name)

    @classmethod
    def of_corpus(cls, path: str, unit: Unit, where: str) -> TokenCounts:
        """From a text file, cut line by line by the unit.

        Args:
            path: The file, UTF-8.
            unit: How lines are cut into tokens.
            where: The setting that names it, for messages.

        Raises:
            ValueError: There is no such file, no token in it, or the unit cannot cut text.
        """
        try:
            status = Path(path).stat()
            found = _of_corpus(Path(path), unit, status.st_size, status.st_mtime_ns)
        except (OSError, ValueError) as fault:
            raise ValueError(f"{where}: cannot count the tokens of '{path}': {fault}") from None
        if not len(found.ids):
            raise ValueError(f"{where}: '{path}' has no token")
        return found

    def places(self, tokens: Int[np.ndarray, "T"]) -> Int[np.ndarray, "T"]:
        """Where in ``ids`` each token is; the length of ``ids`` for one that was never counted."""
        at = np.searchsorted(self.ids, tokens)
        known = self.ids[np.minimum(at, len(self.ids) - 1)] == tokens
        return np.where(known, at, len(self.ids))


@functools.lru_cache(maxsize=1)
def _of_corpus(path: Path, unit: Unit, size: int, changed: int) -> TokenCounts:
    """Kept, so that a long corpus is read once for all systems of an evaluation; ``size`` and ``changed`` renew it."""
    counted: Counter[int] = Counter()
    with path.open(encoding="utf-8") as file:
        for line in file:
            counted.update(unit.ids(line).tolist())
    return TokenCounts.of(counted, path.name)
