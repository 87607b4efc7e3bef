"""Numbers of the published systems to compare with; what each array is stands in the README next to this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

FOLDER = Path(__file__).parent


def names(group: str = "") -> list[str]:
    """Names that :func:`load` takes, all of them or those of one folder ("heads", "objectives")."""
    found = (path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.npz"))
    return sorted(name for name in found if name.startswith(group))


def load(name: str) -> dict[str, Any]:
    """One golden file: floats as float64 tensors, ids as int64 tensors, ``settings`` (heads only) as a dict.

    Args:
        name: Folder and file without ending, such as ``heads/gpt2_S``.

    Raises:
        ValueError: There is no such file.
    """
    path = FOLDER / f"{name}.npz"
    if not path.is_file():
        raise ValueError(f"golden: no file '{name}'; there are {', '.join(names())}")
    with np.load(path, allow_pickle=False) as arrays:
        return {key: _value(arrays[key]) for key in arrays.files}


def _value(array: np.ndarray) -> Any:
    if array.dtype.kind == "U":
        return json.loads(str(array))
    return torch.from_numpy(array.astype(np.float64 if array.dtype.kind == "f" else np.int64))
