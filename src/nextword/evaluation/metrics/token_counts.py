"""How often each token occurs in a text, counted here or read from a file."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from nextword.evaluation.metrics.tokens import Unit
from nextword.functional.frequency.counts import TokenCounts


@dataclass(frozen=True)
class CountedTokens:
    """Tokens and their counts; a token that is not among them was never counted."""

    ids: Int[np.ndarray, "K"]
    """Token ids, ascending."""
    counts: Int[np.ndarray, "K"]
    """How often each occurs."""
    source: str
    """Where they are from, for a report."""

    @classmethod
    def of(cls, counted: Mapping[int, int], source: str) -> CountedTokens:
        """From a mapping of ids to counts.

        >>> CountedTokens.of({7: 2, 3: 1}, "a text").ids.tolist()
        [3, 7]
        """
        ids = np.array(sorted(counted), dtype=np.int64)
        return cls(ids, np.array([counted[int(token)] for token in ids], dtype=np.int64), source)

    @classmethod
    def load(cls, path: str, unit: Unit, where: str) -> CountedTokens:
        """From what ``nextword count`` wrote, or a .npy file of one whole number for each token id.

        Args:
            path: The file.
            unit: What is counted in the texts.
            where: The setting that names it, for messages.

        Raises:
            ValueError: There is no such file, it holds something else, or the counts are those of another tokenizer.
        """
        found = TokenCounts.load(path, where)
        unit.expect_counts_of_it(found, where)
        return cls(np.arange(len(found.counts)), found.counts, found.source)

    @classmethod
    def of_corpus(cls, path: str, unit: Unit, where: str) -> CountedTokens:
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
def _of_corpus(path: Path, unit: Unit, size: int, changed: int) -> CountedTokens:
    """Kept, so that a long corpus is read once for all systems of an evaluation; ``size`` and ``changed`` renew it."""
    counted: Counter[int] = Counter()
    with path.open(encoding="utf-8") as file:
        for line in file:
            counted.update(unit.ids(line).tolist())
    return CountedTokens.of(counted, path.name)
