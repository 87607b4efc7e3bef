"""A disk cache of model outputs ("features"), so that a model reads no text twice."""

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
"""Function that gets indices of texts and yields batches: some of these indices, with one feature row per index."""

SAVE_EVERY = 8
"""Number of batches between two saves."""


def key_of(*parts: str) -> str:
    """The cache key (a hash) of one or several texts (``parts``). Equal keys mean equal texts in the same order.

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
    """Loads or computes the feature vectors of texts. With ``folder``, it stores them in files for later runs.

    The files are in a subfolder of ``folder``, whose name has a hash of ``name`` and ``settings``. So features of
    different models are never mixed up. Every save writes a new file atomically. If a file is broken, it is ignored
    with a warning, and the features of its texts are computed again. Two runs may share a folder.

    Args:
        folder: Folder in which the subfolder is created. None: features are not stored.
        name: Kind of the features, for example "last-token", with which the subfolder's name begins.
        settings: Everything that the features depend on besides the text, such as the model's fingerprint.
        progress: Function that is called after every batch with ``name``, the number of texts computed so far, and the
            number of all texts to compute.
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
        """The feature vectors of the texts with these ``keys``, in order, one row per key.

        Features that are not stored are computed, once for equal keys. ``compute`` is called at most once, with the
        indices in ``keys`` of the missing features.

        Raises:
            ValueError: If a feature is NaN or infinite, or the folder cannot be written.
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
                        f"{self._name}: the model returns NaN or infinity for {int(broken.sum())} of {len(positions)} "
                        f"texts of a batch (the first is number {positions[int(broken.argmax())] + 1}). Overflow in "
                        "half precision or a broken checkpoint can cause this; try another checkpoint."
                    )
                found |= {keys[position]: row for position, row in zip(positions, rows, strict=True)}
                unsaved += [keys[position] for position in positions]
                self._progress(self._name, len(found), len(missing))
                if batch % SAVE_EVERY == 0:
                    self._save(unsaved, found)
                    unsaved = []
        finally:  # an interrupted run also saves its results
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
                f"{self._name}: features cannot be written to {self._folder}: {fault}. Give another folder: "
                f"{named('features', 'FOLDER')}"
            ) from fault

    def _load(self) -> Iterator[tuple[str, Float[np.ndarray, "D"]]]:
        if self._folder is None or not self._folder.is_dir():
            return
        width: int | None = None
        for path in sorted(self._folder.glob("*.npz")):
            try:
                keys, rows = _read(path, width)
            except Exception as fault:  # zipfile, zlib and numpy raise many different errors for a damaged file
                warnings.warn(f"{path} is broken, so its features are computed again: {fault}", stacklevel=2)
                with contextlib.suppress(OSError):  # the folder is read-only, or another run has renamed the file
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
