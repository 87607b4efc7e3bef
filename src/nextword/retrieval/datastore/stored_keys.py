"""An opened datastore, memory-mapped, so that it may be larger than the memory."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.runtime.files import Record, replacing

_OFF = 0.05
"""Maximum relative difference of states: bfloat16 rounding is below it, another model far above."""


class StoredKeys:
    """K keys with the token after each, numbered across all shards.

    Raises:
        ValueError: The store is not finished, or one of its files is missing or cut off.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest: StoreManifest = manifest_of(self.folder)
        origin = self.manifest.origin
        self.start = origin.start
        self.shards = [
            Shard.open(self.folder, number, keys, origin.width, origin.precision)
            for number, keys in enumerate(self.manifest.shards)
        ]
        self._firsts = np.cumsum([0, *self.manifest.shards])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @property
    def tokenizer(self) -> str:
        """Fingerprint of the tokenizer that its tokens were made with."""
        return self.manifest.origin.tokenizer

    @property
    def width(self) -> int:
        """Width of a key."""
        return self.manifest.origin.width

    def blocks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "B D"]]]:
        """All keys in blocks of at most ``size``, each with the number of its first key."""
        for first, shard in zip(self._firsts.tolist(), self.shards, strict=False):
            for begin in range(0, len(shard.tokens), size):
                yield first + begin, shard.block(slice(begin, begin + size))

    def keys_at(self, numbers: Int[np.ndarray, "M"]) -> Float[np.ndarray, "M D"]:
        """Some keys, as float32."""
        return self._gathered(numbers, np.empty((len(numbers), self.width), dtype=np.float32), Shard.keys_at)

    def tokens_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
        """The token after each of some keys."""
        return self._gathered(numbers, np.empty(len(numbers), dtype=np.int64), lambda shard, rows: shard.tokens[rows])

    def positions_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M 2"]:
        """Document, and position within it, of the token after each of some keys."""
        found = np.empty((len(numbers), 2), dtype=np.int64)
        return self._gathered(numbers, found, lambda shard, rows: shard.places[rows])

    def _gathered(
        self, numbers: Int[np.ndarray, "M"], found: np.ndarray, read: Callable[[Shard, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Fills ``found`` with what is read of each shard."""
        of = np.searchsorted(self._firsts, numbers, side="right") - 1
        for number in np.unique(of).tolist():
            rows = np.flatnonzero(of == number)
            found[rows] = read(self.shards[number], numbers[rows] - self._firsts[number])
        return found

    def stretch(self, document: int, first: int, last: int) -> tuple[list[int], int]:
        """Tokens of a document between two positions, and the position of the first one."""

        def document_of(number: int) -> int:
            return int(self.positions_at(np.array([number]))[0, 0])

        first, numbers = max(0, first), range(len(self))
        begin, end = (bisect_left(numbers, limit, key=document_of) for limit in (document, document + 1))
        return self.tokens_at(np.arange(begin, end)[first : last + 1]).tolist(), first

    def expect_states(self, states: Float[Tensor, "P D"]) -> None:
        """Raises ValueError if these states of the probe's tokens are not those of the model of the store."""
        probe = torch.from_numpy(np.load(self.folder / PROBE))
        own = states.detach().float().cpu()
        if own.shape != probe.shape or float((own - probe).norm()) > _OFF * float(probe.norm()):
            raise ValueError(
                f"store: must be made with the same model ('{self.folder}' was made with "
                f"'{self.manifest.origin.model}', whose states differ); build a store with this model"
            )


# -- A shard of a datastore: keys, next tokens and positions as arrays on the disk.

_LEVELS = 127
"""Weight of a sign, in 8 bits."""


def _name(folder: Path, number: int, part: str) -> Path:
    return folder / f"shard-{number:05d}.{part}"


def write_array(path: Path, array: np.ndarray) -> None:
    """Writes an array as .npy, whole or not at all."""
    # Not np.save: it hands the numbers to C, and a disk that is full is noticed by nobody.
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

    Each state of ``keys`` has the token that came after it, and of this token ``places`` has the document and its
    position there. With the precision int8 each key has a factor of its own.

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
        """Raises ValueError where a file is missing, cut off or of another shape than the manifest says."""
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


# -- What a datastore says of itself: which model, tokenizer and data it was made from, and which shards it has.

MANIFEST, BEGUN, PROBE = "store.json", "begun.json", "probe.npy"
"""The last file that is written, the first one, and the states by which a model is known again."""


class StoreOrigin(Record):
    """What decides about every number in a store; two builds into one folder must agree on it."""

    format: Literal["nextword-datastore/1"] = "nextword-datastore/1"
    """Name and version of the format; a reader refuses others."""
    model: str
    """Name of the model."""
    model_fingerprint: str | None
    """Checksum of its weights; None where they were in float16, or not all in memory."""
    tokenizer: str
    """Fingerprint of its tokenizer."""
    data: str
    """Which files or data set, with their sizes and dates."""
    width: int
    """Width of a key."""
    vocab_size: int
    """Tokens of the model."""
    precision: Literal["float16", "int8"]
    """Precision of the keys."""
    start: int
    """The token before every document."""
    window: int
    """Tokens that the model saw at once."""
    stride: int
    """Tokens that each window after the first gave."""
    shard_keys: int
    """Keys of a shard; the last one may have fewer."""


class ShardFacts(Record):
    """One shard; written when its other files are there."""

    number: int
    """Its position among them, from 0."""
    keys: int
    """How many it has."""


class StoreManifest(Record):
    """A finished store."""

    nextword: str
    """Version that wrote it."""
    origin: StoreOrigin
    """What every number in it depends on."""
    documents: int
    """Documents of the data, empty ones among them."""
    empty_documents: int
    """Tokens without an entry."""
    shards: list[int]
    """Keys of each shard, in order."""
    probe: list[int]
    """Tokens whose states are in the probe."""


def manifest_of(folder: Path) -> StoreManifest:
    """The manifest of a finished store; ValueError where there is none says whether a build was begun."""
    if not (folder / MANIFEST).is_file():
        begun = (folder / BEGUN).is_file()
        raise ValueError(
            f"store: must be a finished datastore ('{folder}' "
            + ("was begun and not finished); run the same 'nextword datastore build' again" if begun else "given); ")
            + ("" if begun else "make one with 'nextword datastore build MODEL DATA --out FOLDER'")
        )
    return StoreManifest.load(folder / MANIFEST)
