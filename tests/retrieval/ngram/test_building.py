"""An n-gram index that finds the disk full: said in one line, nothing left that could be read, and made afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nextword.retrieval.ngram import NgramIndex
from nextword.runtime.files import DiskFullError
from tests.helpers.full_disk import largest_file, make_larger, small_disk
from tests.helpers.stored_texts import built

pytest.importorskip("pydivsufsort")

TOKENS = np.random.default_rng(0).integers(0, 500, 40_000).tolist()
MESSAGE = "cannot be written: .*Make room and run the same command again"


@pytest.mark.parametrize("size", [5_000, 90_000])
def test_a_file_that_may_not_grow(tmp_path: Path, size: int) -> None:
    """In the middle of the tokens, and of their order; a memory that was there before is not touched."""
    other = built(tmp_path / "other", [[1, 2, 3]], 500)
    with largest_file(size), pytest.raises(DiskFullError, match=MESSAGE):
        built(tmp_path / "memory", [TOKENS], 500)
    left = {path.name for path in (tmp_path / "memory").iterdir()}
    assert not {name for name in left if name.endswith((".npy", ".json")) or name == ".building"}
    with pytest.raises(ValueError, match="n-gram index"):
        NgramIndex(tmp_path / "memory")
    assert len(built(tmp_path / "memory", [TOKENS], 500)) == len(TOKENS) - 1
    assert len(NgramIndex(other.folder)) == 2


@pytest.mark.parametrize("pages", [10, 30, 50])
def test_a_real_full_disk(tmp_path: Path, pages: int) -> None:
    """Writing into a mapped file that finds no room would kill the process: the room is taken before."""
    with small_disk(tmp_path / "disk", pages * 4096) as disk:
        with pytest.raises(DiskFullError, match=MESSAGE):
            built(disk / "memory", [TOKENS], 500)
        make_larger(disk, 1 << 22)
        assert len(built(disk / "memory", [TOKENS], 500)) == len(TOKENS) - 1
