"""A file of token counts for heads that divide the vocabulary by frequency."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from nextword.functional.frequency import TokenCounts


@cache
def counts_file() -> str:
    """Counts of a few tokens, the most frequent not the first; all others of a vocabulary were never seen."""
    path = Path(tempfile.mkdtemp()) / "counts.npz"
    counts = np.array([3, 0, 40, 9, 25, 1, 12, 7, 30, 2, 18, 5], dtype=np.int64)
    TokenCounts(counts, None, "a test").save(path)
    return str(path)
