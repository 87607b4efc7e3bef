"""A shard of a datastore: keys, next tokens and places as arrays on the disk."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.retrieval.store_manifest import ShardFacts
from nextword.runtime.files import replacing

_LEVELS = 127
"""Of a sign, in 8 bits."""


def _name(folder: Path, number: int, part: str) -> Path:
    return folder / f"shard-{number:05d}.{part}"


def write_array(path: Path, array: np.ndarray) -> None:
    """Writes an array as .npy, whole or not at all.

    Not ``np.save``: it hands the numbers to C, and a disk that is full is noticed by nobody.
    """
    with replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(np.ascontiguousarray(array).data)


def finished(folder: Path, number: int) -> ShardFacts | None:
    """What a shard says of itself; None where it is not finished."""
    path = _name(folder, number, "json")
    return ShardFacts.load(path) if path.is_file() else None


def write_shard(
    folder: Path,
    number: int,
    keys: Float[np.ndarray, "K D"],
    tokens: Int[np.ndarray, "K"],
    places: Int[np.ndarray, "K 2"],
    precision: str,
) -> ShardFacts:
    """Writes a shard, its facts last: what is killed leaves no shard, and the next build makes it again.

    Args:
        folder: Of the store.
        number: Of the shard, from 0.
        keys: The states.
        tokens: What came after each.
        places: Document, and place within it, of each of these tokens.
        precision: Of the keys on the disk; with int8 each key has a factor of its own.

    Raises:
        DiskFullError: There is no room for it.
    """
    arrays = {"tokens": tokens.astype(np.int32), "places": places.astype(np.int32)}
    if precision == "int8":
        scale = np.maximum(np.abs(keys).max(1), 1e-12).astype(np.float32) / _LEVELS
        arrays |= {"keys": np.rint(keys / scale[:, None]).astype(np.int8), "scales": scale}
    else:
        arrays["keys"] = np.clip(keys, -65504, 65504).astype(np.float16)
    for part, array in arrays.items():
        write_array(_name(folder, number, f"{part}.npy"), array)
    facts = ShardFacts(number=number, keys=len(tokens))
    facts.save(_name(folder, number, "json"))
    return facts


@dataclass(frozen=True)
class Shard:
    """A shard as it lies on the disk; only what is looked at is read."""

    keys: np.ndarray
    tokens: Int[np.ndarray, "K"]
    places: Int[np.ndarray, "K 2"]
    scales: Float[np.ndarray, "K"] | None
    view: Tensor
    """The keys as torch sees them; nobody writes to it."""

    @classmethod
    def open(cls, folder: Path, number: int, keys: int, width: int, precision: str) -> Shard:
        """Opens a shard.

        Raises:
            ValueError: A file is missing, cut off or of another shape than the manifest says.
        """
        shapes = {"keys": (keys, width), "tokens": (keys,), "places": (keys, 2)}
        shapes |= {"scales": (keys,)} if precision == "int8" else {}
        arrays = {part: _mapped(_name(folder, number, f"{part}.npy"), shape) for part, shape in shapes.items()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            view = torch.from_numpy(arrays["keys"])
        return cls(arrays["keys"], arrays["tokens"], arrays["places"], arrays.get("scales"), view)

    def block(self, rows: slice) -> Float[Tensor, "M D"]:
        """Keys that stand together, as float32; torch takes all threads to read them, numpy one."""
        keys = self.view[rows].float()
        return keys if self.scales is None else keys.mul_(torch.from_numpy(self.scales[rows][:, None].copy()))

    def keys_at(self, rows: Int[np.ndarray, "M"]) -> Float[np.ndarray, "M D"]:
        """Some of the keys, as float32."""
        keys: np.ndarray = self.keys[rows].astype(np.float32)
        return keys if self.scales is None else keys * self.scales[rows][:, None]


def _mapped(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as fault:
        said = "is missing" if isinstance(fault, FileNotFoundError) else "is cut off or damaged"
        raise ValueError(_again(path, said)) from None
    if array.shape != shape:
        raise ValueError(_again(path, f"has the shape {array.shape} and not {shape}"))
    return array


def _again(path: Path, said: str) -> str:
    facts = f"{path.name.partition('.')[0]}.json"
    return (
        f"store: must have all of its shards ('{path}' {said}); delete {facts} and store.json there and run the same "
        "'nextword datastore build' again, which makes this shard anew"
    )
