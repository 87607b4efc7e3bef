"""Outputs of everything at once, to prove that a reorganisation changes none of them to the bit.

    python -m tests.helpers.golden_outputs make FOLDER [--only PREFIX] [--workers N]
    python -m tests.helpers.golden_outputs compare FOLDER_BEFORE FOLDER_AFTER
    python -m tests.helpers.golden_outputs small

``make`` goes on where it was stopped: a file that is there is not made again. ``compare`` prints what differs, and ends
with 1 if anything does. ``small`` rewrites the numbers of the fast test. Both folders must be made on the same machine
with the same libraries: other processors round otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import quote

# Before torch is imported: the same sums in the same order in every process, wherever the numbers lie in memory.
os.environ.update(OMP_NUM_THREADS="1", MKL_CBWR="COMPATIBLE", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")

import torch

from tests.helpers.golden import (
    commands,
    comparisons,
    differences,
    generations,
    passes,
    saved_models,
    small_values,
)

PARTS = (passes, saved_models, generations, comparisons, commands)


def jobs(only: str = "") -> dict[str, Callable[[], Any]]:
    """Name of every file with what makes its content."""
    return {name: make for part in PARTS for name, make in part.jobs() if name.startswith(only)}


def file_of(folder: Path, name: str) -> Path:
    return folder / f"{quote(name, safe='/,:+= ')}.json"


def make(folder: Path, only: str = "", workers: int = 1) -> bool:
    """Makes what is not there yet, and says how long each part took; whether all of it could be made."""
    missing = {name: job for name, job in jobs(only).items() if not file_of(folder, name).is_file()}
    seconds: Counter[str] = Counter()
    left = Counter(part_of(name) for name in missing)
    failed = False
    for name, (took, fault) in _made(folder, missing, workers):
        part = part_of(name)
        seconds[part] += took
        left[part] -= 1
        if fault:
            failed = True
            print(f"failed: {name}\n{fault}", flush=True)
        if left[part] % 50 == 0:
            print(f"{part}: {left[part]} left, {seconds[part]:.0f} s of processor time", flush=True)
    return not failed


def part_of(name: str) -> str:
    return name.partition("/")[0]


def _made(folder: Path, missing: dict[str, Callable[[], Any]], workers: int) -> Iterator[tuple[str, tuple[float, str]]]:
    if workers < 2:
        for name, job in missing.items():
            yield name, write(folder, name, job)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = {name: pool.submit(write, folder, name, job) for name, job in missing.items()}
        yield from ((name, future.result()) for name, future in futures.items())


def write(folder: Path, name: str, job: Callable[[], Any]) -> tuple[float, str]:
    """Writes one file; processor time in seconds, and the traceback where it could not be made."""
    torch.set_num_threads(1)
    begin, path = time.process_time(), file_of(folder, name)
    try:
        content = json.dumps(job(), indent=0, sort_keys=True)
    except Exception:
        return time.process_time() - begin, traceback.format_exc()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(content, encoding="utf-8")
    partial.replace(path)
    return time.process_time() - begin, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="golden_outputs", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write the outputs into a folder")
    making.add_argument("folder", type=Path)
    making.add_argument("--only", default="", help="files whose name begins so: a part, or passes/gpt2")
    making.add_argument("--workers", type=int, default=1)
    comparing = commands.add_parser("compare", help="print what differs")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    commands.add_parser("small", help="rewrite the numbers of the fast test")
    asked = parser.parse_args()
    if asked.command == "make":
        return int(not make(asked.folder, asked.only, asked.workers))
    if asked.command == "small":
        small_values.rewrite()
    else:
        found = [*differences.between(asked.before, asked.after)]
        print("\n".join(found) or f"The same: {len(differences.files(asked.before))} files.")
        return int(bool(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
