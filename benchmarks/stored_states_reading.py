"""What a training step reads of a store: finding its rows, their files, their precision; from the disk, and cached."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from nextword.functional.padding import stacked
from nextword.model.stored_states.state_files import (
    MANIFEST,
    RowStates,
    StatesManifest,
    StatesOrigin,
    StoredStates,
    TokenRow,
    write_shard,
)

TITLE = "Reading"
LENGTH, BATCHES = 256, 16
SMALL, LARGE = "SmolLM2-135M, 3 layers", "Llama 3.1 8B, 1 layer"


def reading(given: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is measured, and its table."""
    del given
    found = {
        SMALL: _of_shape(576, layers=3, rows=4),
        LARGE: _of_shape(4096, layers=1, rows=1),
    }
    return found, [_table(found)]


def _of_shape(width: int, layers: int, rows: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # /tmp may lie in memory
        known = random_rows(rows * BATCHES)
        random_store(Path(folder), width, layers, known)
        store = StoredStates(folder)
        batches = [known[first : first + rows] for first in range(0, len(known), rows)]
        assert all(row in store for row in known)
        seconds: dict[str, list[float]] = {"found": [], "read": [], "converted": [], "from the disk": []}
        for batch in batches * 2:
            began = time.process_time()
            assert all(row in store for row in batch)
            seconds["found"].append(time.process_time() - began)
            began = time.process_time()
            states = [one for one in map(store.of, batch) if one is not None]
            seconds["read"].append(time.process_time() - began - seconds["found"][-1])
            began = time.process_time()
            for part in ([one.states for one in states], [one.layers for one in states]):
                stacked([one.float() for one in part], 0)
            seconds["converted"].append(time.process_time() - began)
        for batch in batches:
            evict(Path(folder))
            began = time.perf_counter()
            assert all(map(store.of, batch))
            seconds["from the disk"].append(time.perf_counter() - began)
        size = sum(path.stat().st_size for path in Path(folder).glob("*.npy"))
    return {"tokens": rows * LENGTH, "mib": size / 2**20 / BATCHES} | {
        name: statistics.median(of) for name, of in seconds.items()
    }


def random_rows(count: int) -> list[TokenRow]:
    """Rows of random tokens."""
    chance = torch.Generator().manual_seed(0)
    return [TokenRow(tuple(torch.randint(0, 32_000, (LENGTH,), generator=chance).tolist())) for _ in range(count)]


def random_store(folder: Path, width: int, layers: int, rows: list[TokenRow]) -> None:
    """A store of random states in float16, the same ones in every row: no state depends on a later token."""
    longest = max(len(row.ids) for row in rows)
    kept = torch.randn(longest, layers, width, generator=torch.Generator().manual_seed(0))

    def states(length: int) -> RowStates:
        return RowStates(kept[:length, 0], kept[:length], kept[:0, 0])

    facts = write_shard(folder, 0, rows, [states(len(row.ids)) for row in rows], "float16")
    origin = StatesOrigin(
        model="random",
        model_fingerprint=None,
        tokenizer="none",
        task={},
        rows="none",
        width=width,
        source_width=None,
        layers=layers,
        state_scale=1.0,
        precision="float16",
        shard_tokens=facts.tokens,
    )
    StatesManifest(nextword="benchmark", origin=origin, shards=[facts]).save(folder / MANIFEST)


def evict(folder: Path) -> None:
    """Takes the files of a folder out of the system's cache."""
    for path in folder.iterdir():
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)


def _table(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    parts = ("found", "read", "converted", "from the disk")
    rows = [
        [
            name,
            f"{of['tokens']:,}",
            f"{of['mib']:.1f}",
            *(f"{1000 * of[part]:.1f}" for part in parts),
        ]
        for name, of in found.items()
    ]
    columns = [
        "states",
        "tokens per step",
        "MiB per step",
        "rows found, ms",
        "files read, ms",
        "to float32 and padded, ms",
        "found and read, files not in the system's cache, ms of the clock",
    ]
    caption = (
        "What a step reads, per step; compare with the seconds of the steps above. Files in float16, processor time "
        "with the files in the system's cache; in the last column they are not (`posix_fadvise`)."
    )
    return {"title": TITLE, "parts": [{"caption": caption, "columns": columns, "rows": rows}]}
