"""A count that is not finished, as a file from which it goes on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from nextword.functional.frequency.arrays import UNREADABLE, read_arrays, write_arrays
from nextword.runtime.lock import expect_writable


@dataclass(frozen=True, eq=False)
class Tally:
    """What is counted so far.

    Attributes:
        counts: Of each token id.
        items: Texts that were read.
        state: Where to go on: the number of a row, or a stream's own state.
    """

    counts: Int[np.ndarray, "V"]
    items: int
    state: Any

    def plus(self, row: Mapping[str, Any], state: Any) -> Tally:
        """A new tally, so that an interruption finds the old one or the new one, never a half."""
        counts = self.counts.copy()
        counts[row["ids"]] += np.asarray(row["counts"], dtype=np.int64)
        return Tally(counts, self.items + int(row["items"]), state)


def partial_path(out: Path) -> Path:
    """Where the unfinished counts of ``out`` are kept."""
    return out.with_name(f"{out.name}.partial")


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keeps other processes of this machine from counting into ``out`` inside the ``with`` block.

    Raises:
        ValueError: Another one is at it, or nothing can be written there.
    """
    from filelock import FileLock, Timeout

    path = out.with_name(f"{out.name}.lock")
    expect_writable(path)
    try:
        with FileLock(path).acquire(timeout=0):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
    except Timeout:
        raise ValueError(
            f"{out}: must be written by one process at a time (another one counts into it); wait until it is done, or "
            "name another file to write"
        ) from None


def save(tally: Tally, out: Path, settings: Mapping[str, Any]) -> None:
    """Writes the tally beside ``out``."""
    about = json.dumps({"items": tally.items, "state": tally.state, "settings": settings})
    write_arrays(partial_path(out), {"counts": tally.counts, "about": np.array(about)})


def load(out: Path, settings: Mapping[str, Any]) -> Tally | None:
    """The tally beside ``out``; None where there is none.

    Raises:
        ValueError: It was begun with other settings, or is broken.
    """
    path = partial_path(out)
    if not path.exists():
        return None
    try:
        arrays = read_arrays(path)
        if isinstance(arrays, np.ndarray):
            raise ValueError("it is a .npy file")
        about = json.loads(str(arrays["about"]))
        begun, tally = about["settings"], Tally(arrays["counts"], about["items"], about["state"])
    except UNREADABLE as fault:
        raise ValueError(f"cannot read the unfinished counts in '{path}' ({fault}); delete the file") from None
    for name in [*settings, *(begun.keys() - settings.keys())]:
        if begun.get(name) != settings.get(name):
            raise ValueError(
                f"'{path}' was begun with another {name} ({begun.get(name)} there, {settings.get(name)} now). Go on "
                f"with that one, delete the file, or name another file to write."
            )
    return tally
