"""An opened datastore. Its files are memory-mapped, so that it may be larger than the memory."""

from __future__ import annotations

import os
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.runtime.files import Record
from nextword.runtime.shard_files import StoreKind, shard_file, write_array

_OFF = 0.05
"""Maximum relative difference between states of the same model. Rounding to bfloat16 changes states less, another model
far more."""


class StoredKeys:
    """The datastore in ``folder``: keys, numbered across all shards, each with the token after it.

    Raises:
        ValueError: If the store is not finished, or one of its files is missing or cut off.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        _expect_text(self.folder)
        self.manifest = DATASTORE.manifest_in(self.folder, StoreManifest)
        origin = self.manifest.origin
        self.start = origin.start
        self._firsts = np.cumsum([0, *self.manifest.shards])
        self.shards = [
            Shard.open(self.folder, number, keys, origin.width, origin.precision)
            if origin.format != STATES_FORMAT
            else Shard.of_states(self.folder, number, int(self._firsts[number]), keys, origin)
            for number, keys in enumerate(self.manifest.shards)
        ]

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @property
    def tokenizer(self) -> str:
        """Fingerprint of the tokenizer that made the datastore's tokens."""
        return self.manifest.origin.tokenizer

    @property
    def width(self) -> int:
        """Number of dimensions of a key."""
        return self.manifest.origin.width

    def blocks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "B D"]]]:
        """All keys in blocks of at most ``size``, each with the number of its first key."""
        for first, shard in zip(self._firsts.tolist(), self.shards, strict=False):
            for begin in range(0, len(shard.tokens), size):
                yield first + begin, shard.block(slice(begin, begin + size))

    def keys_at(self, numbers: Int[np.ndarray, "M"]) -> Float[np.ndarray, "M D"]:
        """The keys with these ``numbers``, as float32."""
        return self._gathered(numbers, np.empty((len(numbers), self.width), dtype=np.float32), Shard.keys_at)

    def tokens_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
        """The token after each of the keys with these ``numbers``."""
        return self._gathered(numbers, np.empty(len(numbers), dtype=np.int64), lambda shard, rows: shard.tokens[rows])

    def positions_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M 2"]:
        """For the token after each of the keys with these ``numbers``: its document, and its position there."""
        found = np.empty((len(numbers), 2), dtype=np.int64)
        return self._gathered(numbers, found, lambda shard, rows: shard.places[rows])

    def _gathered(
        self, numbers: Int[np.ndarray, "M"], found: np.ndarray, read: Callable[[Shard, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Fills ``found`` with the rows that ``read`` returns for each shard's keys."""
        of = np.searchsorted(self._firsts, numbers, side="right") - 1
        for number in np.unique(of).tolist():
            rows = np.flatnonzero(of == number)
            found[rows] = read(self.shards[number], numbers[rows] - self._firsts[number])
        return found

    def stretch(self, document: int, first: int, last: int) -> tuple[list[int], int]:
        """Tokens of ``document`` from position ``first`` to ``last`` (inclusive), and the first token's position."""

        def document_of(number: int) -> int:
            return int(self.positions_at(np.array([number]))[0, 0])

        first, numbers = max(0, first), range(len(self))
        begin, end = (bisect_left(numbers, limit, key=document_of) for limit in (document, document + 1))
        return self.tokens_at(np.arange(begin, end)[first : last + 1]).tolist(), first

    def expect_states(self, states: Float[Tensor, "P D"]) -> None:
        """Raises ValueError unless a model's ``states`` of ``manifest.probe`` equal the stored ones up to 5 %."""
        probe = torch.from_numpy(np.load(self.folder / PROBE))
        own = states.detach().float().cpu()
        if own.shape != probe.shape or float((own - probe).norm()) > _OFF * float(probe.norm()):
            raise ValueError(
                f"store: must be made with the same model ('{self.folder}' was made with "
                f"'{self.manifest.origin.model}', whose states differ); build a store with this model"
            )


def _expect_text(folder: Path) -> None:
    if os.path.isfile(folder / STATES.manifest) and not os.path.isfile(folder / MANIFEST):
        raise ValueError(
            f"store: must be a datastore, or a store of states of running text ('{folder}' has states of other rows); "
            "make one with 'nextword datastore build MODEL DATA --out FOLDER'"
        )


# -- A shard of a datastore: keys, next tokens and positions as arrays on the disk.

_LEVELS = 127
"""Largest absolute value of a number of a key in int8."""


def write_shard(
    folder: Path,
    number: int,
    keys: Float[np.ndarray, "K D"],
    tokens: Int[np.ndarray, "K"],
    places: Int[np.ndarray, "K 2"],
    precision: str,
) -> ShardFacts:
    """Writes a shard, and last the file with its facts. Without this file, the next build makes the shard again.

    ``tokens`` has the token after each state of ``keys``, ``places`` the document of this token and its position in
    the document. With ``precision`` "int8", each key has a scale; with any other value, keys are stored as float16.

    Raises:
        DiskFullError: If there is not enough disk space.
    """
    arrays = {"tokens": tokens.astype(np.int32), "places": places.astype(np.int32)}
    if precision == "int8":
        scale = np.maximum(np.abs(keys).max(1), 1e-12).astype(np.float32) / _LEVELS
        arrays |= {"keys": np.rint(keys / scale[:, None]).astype(np.int8), "scales": scale}
    else:
        arrays["keys"] = np.clip(keys, -65504, 65504).astype(np.float16)
    for part, array in arrays.items():
        write_array(shard_file(folder, number, f"{part}.npy"), array)
    facts = ShardFacts(number=number, keys=len(tokens))
    facts.save(shard_file(folder, number, "json"))
    return facts


@dataclass(frozen=True)
class Shard:
    """A memory-mapped shard (see ``write_shard``). Only the keys in use are read from disk."""

    tokens: Int[np.ndarray, "K"]
    places: Int[np.ndarray, "K 2"]
    scales: Float[np.ndarray, "K"] | None
    keys: Tensor
    """The keys; read-only."""

    @classmethod
    def open(cls, folder: Path, number: int, keys: int, width: int, precision: str) -> Shard:
        """Opens a shard; raises ValueError if a file is missing, truncated or not of the manifest's shape."""
        shapes = {"keys": (keys, width), "tokens": (keys,), "places": (keys, 2)}
        shapes |= {"scales": (keys,)} if precision == "int8" else {}
        arrays = {
            part: _mapped(shard_file(folder, number, f"{part}.npy"), shape, DATASTORE) for part, shape in shapes.items()
        }
        return cls(arrays["tokens"], arrays["places"], arrays.get("scales"), _view(arrays["keys"]))

    @classmethod
    def of_states(cls, folder: Path, number: int, first: int, keys: int, origin: StoreOrigin) -> Shard:
        """Opens shard ``number`` of a store of states, with its first ``keys`` states as keys, all of one document.

        The token after the first state has position ``first``; the token after the last may be in the next shard.
        Raises ValueError if a file is missing, truncated or not of the manifest's shape.
        """

        def of(number: int, part: str, least: int, *width: int) -> np.ndarray:
            path = shard_file(folder, number, f"{part}.npy")
            array = _mapped(path, (None, *width), STATES)
            if len(array) < least:
                raise STATES.damaged(path, f"has {len(array):,} rows and not {least:,}")
            return array

        states, tokens = of(number, "states", keys, origin.width)[:keys], of(number, "tokens", keys)[: keys + 1]
        if len(tokens) == keys:
            tokens = np.append(tokens, of(number + 1, "tokens", 1)[0])
        places = np.stack([np.zeros(keys, np.int32), np.arange(first, first + keys, dtype=np.int32)], 1)
        view = _view(states)
        return cls(tokens[1:], places, None, view.view(torch.bfloat16) if origin.precision == "bfloat16" else view)

    def block(self, rows: slice) -> Float[Tensor, "M D"]:
        """The keys in the slice ``rows``, as float32. Torch reads them with all threads."""
        keys = self.keys[rows].float()
        return keys if self.scales is None else keys.mul_(torch.from_numpy(self.scales[rows][:, None].copy()))

    def keys_at(self, rows: Int[np.ndarray, "M"]) -> Float[np.ndarray, "M D"]:
        """The keys at ``rows``, as float32."""
        keys: np.ndarray = self.keys[torch.from_numpy(rows)].float().numpy()
        return keys if self.scales is None else keys * self.scales[rows][:, None]


def _view(array: np.ndarray) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _mapped(path: Path, shape: tuple[int | None, ...], kind: StoreKind) -> np.ndarray:
    # None in ``shape``: any length
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as fault:
        said = "is missing" if isinstance(fault, FileNotFoundError) else "is cut off or damaged"
        raise kind.damaged(path, said) from None
    expected = tuple(there if size is None else size for there, size in zip(array.shape, shape, strict=False))
    if array.shape != expected or len(array.shape) != len(shape):
        raise kind.damaged(path, f"has the shape {array.shape} and not {shape}")
    return array


# -- The manifest of a datastore: its model, tokenizer, data and shards.

MANIFEST, PROBE = "store.json", "probe.npy"
"""Name of the manifest, which is written last, and of the file with states that identify the model."""

DATASTORE = StoreKind("store", "datastore", MANIFEST, "nextword datastore build")
STATES = StoreKind("store", "store of states", "states.json", "nextword states build")


STATES_FORMAT: Final = "nextword-states/1"
"""Format of a datastore whose keys are read from a store of states."""


class StoreOrigin(Record):
    """Everything that determines the content of a store. Two builds into the same folder must have equal origins."""

    format: Literal["nextword-datastore/1", "nextword-states/1"] = "nextword-datastore/1"
    """Name and version of the format; a reader refuses others."""
    model: str
    """Name of the model."""
    model_fingerprint: str | None
    """Checksum of the model's weights; None if they were in float16, or not all in memory."""
    tokenizer: str
    """Fingerprint of the model's tokenizer."""
    data: str
    """Files or data set of the corpus, with sizes and dates."""
    width: int
    """Width of a key."""
    vocab_size: int
    """Vocabulary size of the model."""
    precision: Literal["float16", "int8", "bfloat16", "float32", "float64"]
    """Precision of the keys; the last three values are possible only for stored states."""
    start: int
    """The token before every document."""
    window: int
    """Number of tokens per window."""
    stride: int
    """Number of new tokens per window after the first."""
    shard_keys: int
    """Number of keys per shard; the last shard may have fewer."""


class ShardFacts(Record):
    """Facts about one shard, written after its other files are complete."""

    number: int
    """Number of the shard, from 0."""
    keys: int
    """Number of keys in the shard."""


class StoreManifest(Record):
    """Facts of a finished store."""

    nextword: str
    """Version of nextword that wrote the store."""
    origin: StoreOrigin
    """Everything that determines the content of the store."""
    documents: int
    """Number of documents, including empty ones."""
    empty_documents: int
    """Number of documents without tokens."""
    shards: list[int]
    """Number of keys of each shard, in order."""
    probe: list[int]
    """Tokens whose states, in the file ``PROBE``, identify the model."""
