"""A process for each architecture: what hangs, crashes or takes all memory is a row, and the run goes on."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from architectures.one_architecture import Row

Trial = Callable[[str, str, Callable[[Row], None]], None]
"""Takes an architecture's kind and name, and tells after every step what is known by then."""

FOLDER = Path(__file__).parents[1]
MOST_MEMORY = 12 << 30
"""Bytes of addresses."""

PRELOADED = ["transformers", "nextword", "architectures.one_architecture"]
"""What all processes need: imported once, in the process that they are forked from."""


def context() -> Any:
    """Where processes come from."""
    # the process that they are forked from looks for modules where Python starts, not where this script lies
    os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(PRELOADED)
    return found


def row_of(trial: Trial, kind: str, name: str, most_seconds: float, source: Any) -> Row:
    """What becomes of an architecture in a process of its own, which is ended after ``most_seconds``."""
    here, there = source.Pipe(duplex=False)
    process = source.Process(target=_child, args=(there, trial, kind, name), daemon=True)
    process.start()
    there.close()
    row, end, over = {"kind": kind, "name": name}, time.monotonic() + most_seconds, False
    try:
        while not over:
            over = not here.poll(max(0.0, end - time.monotonic()))
            if not over:
                row = here.recv()
    except EOFError:
        pass
    if over:
        process.kill()
    process.join()
    return row | _ended(row, f"no end after {most_seconds:g} seconds" if over else f"exit code {process.exitcode}")


def _ended(row: Row, how: str) -> Row:
    """The unfinished step of a row, if there is one, told apart by how the process ended."""
    unfinished = "the process ended"
    changed: Row = {}
    if str(row.get("not_built", unfinished)).startswith(unfinished):
        changed["not_built"] = f"{row.get('not_built', unfinished)}: {how}"
    if "everything" in row.get("bare", {}):
        changed["bare"] = {"everything": f"{row['bare']['everything']}: {how}"}
    heads = row.get("heads", {})
    changed["heads"] = {
        head: cell | {"reason": f"{cell['reason']}: {how}"} if cell["where"] == "process" else cell
        for head, cell in heads.items()
    }
    return changed


def _child(there: Connection, trial: Trial, kind: str, name: str) -> None:
    import torch
    import transformers

    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    trial(kind, name, there.send)
