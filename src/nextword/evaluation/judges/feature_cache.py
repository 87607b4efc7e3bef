"""Features of a trained model, kept beside the samples, so that no text is read twice."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from nextword.results.records import DiskFullError, write_atomically
from nextword.runtime.files import replacing
from nextword.settings.setting_names import named

Compute = Callable[[list[int]], Iterable[tuple[list[int], Float[np.ndarray, "B D"]]]]
"""Given positions, gives batches in any order: some of those positions, with a row of features for each."""

SAVE_EVERY = 8
"""Batches between two saves; what a killed run loses at most."""


def key_of(*parts: str) -> str:
    """The key of a text, or of a pair of texts: equal only where all parts are.

    >>> key_of("ab", "c") == key_of("a", "bc")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


class FeatureCache:
    """Rows of features by key, in memory and, with a folder, in files that later runs read again.

    The files lie in a folder of their own, named after the model and all settings that change a feature, so that
    features of another model are never taken for these. Every save is a new file that appears as a whole; a file that
    is broken or half-copied is set aside with a warning, and its texts are computed again. Two runs may share a folder.

    Args:
        folder: Where; None keeps nothing.
        name: Name of the metric, for the folder, for example "mauve".
        settings: All that the features depend on besides the text, the fingerprint of the model among it.
        progress: Told the name, how many rows are done, of how many, after every batch.
    """

    def __init__(
        self,
        folder: Path | None,
        name: str,
        settings: Mapping[str, Any],
        progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
    ) -> None:
        self._name = name
        self._progress = progress
        self._about = json.dumps({"features": name, **settings}, sort_keys=True, ensure_ascii=False, indent=2)
        self._folder = folder and folder / f"{name}-{key_of(self._about)[:16]}"

    def rows(self, keys: Sequence[str], compute: Compute) -> Float[np.ndarray, "N D"]:
        """The features of every key, in order; those that are known are not computed, equal keys once.

        ``compute`` is called at most once, with the positions of what is missing.

        Raises:
            ValueError: A feature is not a finite number, or the folder cannot be written.
        """
        wanted = set(keys)
        known = {key: row for key, row in self._load() if key in wanted}
        missing: dict[str, int] = {}
        for position, key in enumerate(keys):
            if key not in known:
                missing.setdefault(key, position)
        if missing:
            known |= self._compute(list(missing.values()), keys, compute)
        if not keys:
            return np.empty((0, 0), dtype=np.float32)
        return np.stack([known[key] for key in keys])

    def _compute(self, missing: list[int], keys: Sequence[str], compute: Compute) -> dict[str, Float[np.ndarray, "D"]]:
        found: dict[str, Float[np.ndarray, "D"]] = {}
        unsaved: list[str] = []
        try:
            for batch, (positions, rows) in enumerate(compute(missing), 1):
                rows = np.asarray(rows, dtype=np.float32)
                broken = ~np.isfinite(rows).all(axis=1)
                if broken.any():
                    raise ValueError(
                        f"{self._name}: the model gives NaN or infinity for {int(broken.sum())} of {len(positions)} "
                        f"texts of a batch, the first one is number {positions[int(broken.argmax())] + 1}. Weights in "
                        "half precision overflow, and broken checkpoints do this; try another checkpoint of the model."
                    )
                found |= {keys[position]: row for position, row in zip(positions, rows, strict=True)}
                unsaved += [keys[position] for position in positions]
                self._progress(self._name, len(found), len(missing))
                if batch % SAVE_EVERY == 0:
                    self._save(unsaved, found)
                    unsaved = []
        finally:  # an interrupted run keeps what it has
            self._save(unsaved, found)
        return found

    def _save(self, keys: list[str], found: Mapping[str, Float[np.ndarray, "D"]]) -> None:
        if self._folder is None or not keys:
            return
        try:
            if not (self._folder / "about.json").exists():
                write_atomically(self._folder / "about.json", self._about + "\n")
            with replacing(self._folder / f"{secrets.token_hex(8)}.npz") as file:
                packed = np.frombuffer(bytes.fromhex("".join(keys)), dtype=np.uint8).reshape(len(keys), -1)
                np.savez(file, keys=packed, rows=np.stack([found[key] for key in keys]))
        except DiskFullError:
            raise
        except OSError as fault:
            raise ValueError(
                f"{self._name}: features cannot be kept in {self._folder}: {fault}. Name another folder: "
                f"{named('features', 'FOLDER')}"
            ) from fault

    def _load(self) -> Iterator[tuple[str, Float[np.ndarray, "D"]]]:
        if self._folder is None or not self._folder.is_dir():
            return
        width: int | None = None
        for path in sorted(self._folder.glob("*.npz")):
            try:
                keys, rows = _read(path, width)
            except Exception as fault:  # zipfile, zlib and numpy raise a dozen kinds for a damaged file
                warnings.warn(f"{path} is broken and is computed again: {fault}", stacklevel=2)
                with contextlib.suppress(OSError):  # read-only, or another run was first
                    path.rename(path.with_suffix(".broken"))
                continue
            width = rows.shape[1]
            yield from zip((key.tobytes().hex() for key in keys), rows, strict=True)


def _read(path: Path, width: int | None) -> tuple[UInt8[np.ndarray, "N 32"], Float[np.ndarray, "N D"]]:
    with np.load(path, allow_pickle=False) as file:
        keys, rows = file["keys"], file["rows"]
    if keys.dtype != np.uint8 or keys.shape != (len(keys), hashlib.sha256().digest_size):
        raise ValueError(f"its keys are {keys.dtype} {keys.shape}")
    if rows.dtype != np.float32 or rows.shape != (len(keys), width or rows.shape[-1]):
        raise ValueError(f"its rows are {rows.dtype} {rows.shape} for {len(keys)} keys")
    if not np.isfinite(rows).all():
        raise ValueError("some of its rows are not finite")
    return keys, rows
