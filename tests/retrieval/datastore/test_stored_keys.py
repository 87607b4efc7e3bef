"""A store that is larger than the memory is opened and searched where it lies."""

from __future__ import annotations

import contextlib
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from nextword.retrieval import ExactSearch, StoredKeys
from nextword.retrieval.datastore.stored_keys import MANIFEST, StoreManifest, StoreOrigin

KEYS, WIDTH = 500_000, 256
ROOM = 100 << 20
"""Less than half of the keys."""

NEAR = 444_444
"""The only key that is not 0."""


def large_store(folder: Path) -> Path:
    """256 MB of keys in two shards; files with holes, which take no room on the disk."""
    folder.mkdir()
    shapes = {"keys": (np.float16, (KEYS // 2, WIDTH)), "tokens": (np.int32, (KEYS // 2,))}
    shapes["places"] = (np.int32, (KEYS // 2, 2))
    for shard in range(2):
        for part, (kind, shape) in shapes.items():
            np.lib.format.open_memmap(folder / f"shard-{shard:05d}.{part}.npy", "w+", kind, shape).flush()
    keys = np.lib.format.open_memmap(folder / "shard-00001.keys.npy", "r+")
    keys[NEAR - KEYS // 2] = 1
    keys.flush()
    origin = StoreOrigin(
        model="made up", model_fingerprint=None, tokenizer="", data="", width=WIDTH, vocab_size=9, precision="float16",
        start=0, window=16, stride=16, shard_keys=KEYS // 2,
    )  # fmt: skip
    manifest = StoreManifest(
        nextword="", origin=origin, documents=1, empty_documents=0, shards=[KEYS // 2] * 2, probe=[0]
    )
    manifest.save(folder / MANIFEST)
    return folder


@contextlib.contextmanager
def memory_for(size: int) -> Iterator[None]:
    """This process may take so many bytes more; files that are mapped are not counted."""
    found = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    assert found
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (int(found[1]) * 1024 + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell mapped files from memory")
def test_a_store_larger_than_the_memory_is_searched(tmp_path: Path) -> None:
    store = large_store(tmp_path / "store")
    with memory_for(ROOM):
        with pytest.raises(MemoryError):
            np.ones((KEYS, WIDTH), np.float16)
        keys = StoredKeys(store)
        assert len(keys) == KEYS
        found = ExactSearch(keys).nearest(torch.ones(1, WIDTH), 2)
        assert found[0, 0] == NEAR
        assert keys.keys_at(np.array([0, NEAR])).sum(1).tolist() == [0, WIDTH]
