"""How outputs are kept: arrays as digests, texts as they are; and what keeps them from being the same twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

SOME = 6
"""Values of an array that are kept, to say how far two of them are apart."""


def digest(array: Any) -> dict[str, Any]:
    """What tells whether two arrays are the same to the bit, and roughly by how much they differ."""
    values = np.ascontiguousarray(array.detach().numpy() if torch.is_tensor(array) else array)
    there = values[np.isfinite(values)].astype(np.float64)
    places = np.linspace(0, values.size - 1, min(SOME, values.size)).astype(int)
    return {
        "dtype": str(values.dtype),
        "shape": [*values.shape],
        "sha256": hashlib.sha256(values.tobytes()).hexdigest(),
        "sum": float(there.sum()),
        "max_abs": float(np.abs(there).max(initial=0.0)),
        "some": [float(values.flat[place]) for place in places],
    }


def or_refusal(make: Callable[[], Any]) -> Any:
    """What is made, or the first line of the error that says why it is not."""
    try:
        return make()
    except (ValueError, TypeError, NotImplementedError, RuntimeError) as refusal:
        return f"{type(refusal).__name__}: {str(refusal).partition(chr(10))[0]}"


def seeded(seed: int = 7) -> None:
    """Of every draw that follows."""
    torch.manual_seed(seed)
    np.random.seed(seed)
