"""Arrays as files: written as a whole or not at all, read without pickle."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nextword.runtime.files import replacing

UNREADABLE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)
"""What numpy raises for a file that is missing, half-written or something else."""


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes a .npz file so that ``path`` holds either its old content or all of the new, never a part."""
    with replacing(path) as file:  # a file, not a name: numpy would add an ending to a name
        np.savez(file, allow_pickle=False, **arrays)


def read_arrays(path: Path) -> dict[str, np.ndarray] | np.ndarray:
    """The arrays of a .npz file by name, or the one array of a .npy file.

    Raises:
        UNREADABLE: One of those.
    """
    found = np.load(path, allow_pickle=False)
    if isinstance(found, np.ndarray):
        return found
    with found:
        return {name: found[name] for name in found.files}
