"""States of a backbone at every token of known rows, as files that may be larger than the memory.

A shard holds whole rows, one behind the other:

    shard-00000.tokens.npy   token ids of all its rows
    shard-00000.rows.npy     where each row begins among all tokens, and among those of the sources; its hash
    shard-00000.states.npy   what the output layer reads at each token
    shard-00000.layers.npy   lower hidden states at each token, for ``+mi``
    shard-00000.source.npy   the encoder's last hidden states, for an encoder-decoder model
    shard-00000.json         written last: a build that was killed leaves no shard, and the next one makes it again

A row of an encoder-decoder model is its source, and behind it what the decoder reads.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import JsonValue
from torch import Tensor

from nextword.retrieval.datastore.stored_keys import write_array
from nextword.runtime.files import Record

MANIFEST, BEGUN = "states.json", "begun.json"

Precision = Literal["bfloat16", "float16", "float32", "float64"]

# numpy knows no bfloat16, so its bits are kept
_KEPT_AS: dict[str, Any] = {
    "bfloat16": np.int16,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}


@dataclass(frozen=True)
class TokenRow:
    """What a backbone reads in one pass: the tokens of a text, and for an encoder-decoder model its source."""

    ids: tuple[int, ...]
    source: tuple[int, ...] = ()

    @property
    def hash(self) -> int:
        """64 bits by which the row is found."""
        content = np.array([len(self.source), *self.source, *self.ids], np.int32).tobytes()
        return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


@dataclass(frozen=True)
class RowStates:
    """The states of one row; K layers, the last one first."""

    states: Float[Tensor, "T D"]
    layers: Float[Tensor, "T K D"]
    source: Float[Tensor, "S E"]


class StatesOrigin(Record):
    """What decides about every number in a store; two builds into one folder must agree on it."""

    format: Literal["nextword-states/1"] = "nextword-states/1"
    """Name and version of the format; a reader refuses others."""
    model: str
    """Folder, file or hub name of the model."""
    model_fingerprint: str | None
    """Fingerprint of its weights; None where they were in half precision, or not all in memory."""
    tokenizer: str
    """Fingerprint of its tokenizer."""
    task: dict[str, JsonValue]
    """The task that made the rows, with its data."""
    rows: str
    """Checksum of all rows, in order."""
    width: int
    """D: width of a state."""
    source_width: int | None
    """E: width of the encoder's states; None for a decoder-only model."""
    layers: int
    """K: hidden states that are kept at each token, for ``+mi``."""
    state_scale: float
    """The factor between the last hidden state and what the output layer reads."""
    precision: Precision
    """In which the states are kept."""
    shard_tokens: int
    """Tokens of a shard; each has at least so many, but the last one."""


class StatesShard(Record):
    """One shard; written when its other files are there."""

    rows: int
    """How many rows it has."""
    tokens: int
    """How many tokens they have together."""
    source_tokens: int
    """How many tokens their sources have together."""
    rounding: float
    """The norm of what rounding changed in the states, by their norm."""


class StatesManifest(Record):
    """A finished store."""

    nextword: str
    """Version that wrote it."""
    origin: StatesOrigin
    """What every number in it depends on."""
    shards: list[StatesShard]
    """Its shards, in order."""

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def rounding(self) -> float:
        """The largest of the shards'."""
        return max((shard.rounding for shard in self.shards), default=0.0)


def _name(folder: Path, number: int, part: str) -> Path:
    return folder / f"shard-{number:05d}.{part}"


def finished_shard(folder: Path, number: int) -> StatesShard | None:
    """What a shard says of itself; None where it is not finished."""
    path = _name(folder, number, "json")
    return StatesShard.load(path) if path.is_file() else None


def write_shard(
    folder: Path, number: int, rows: Sequence[TokenRow], found: Sequence[RowStates], precision: Precision
) -> StatesShard:
    """Writes the rows with their states, and what the shard says of itself last.

    Raises:
        DiskFullError: There is no room for it.
        ValueError: A state is NaN, or too large for the precision.
    """
    begins = np.cumsum([0, *(len(row.ids) for row in rows)])
    source_begins = np.cumsum([0, *(len(row.source) for row in rows)])
    hashes = np.array([row.hash for row in rows], np.int64)
    ids = np.array([token for row in rows for token in (*row.source, *row.ids)], np.int32)
    states = torch.cat([one.states for one in found])
    kept = states.to(getattr(torch, precision))
    if not bool(torch.isfinite(kept).all()):
        raise ValueError(
            f"states: must be finite numbers in {precision} (the model gives NaN, or numbers beyond it); give another "
            "precision, or look at the model's weights"
        )
    error = float((kept.double() - states.double()).norm() / states.double().norm().clamp_min(1e-300))
    write_array(_name(folder, number, "tokens.npy"), ids)
    write_array(_name(folder, number, "rows.npy"), np.stack([begins[:-1], source_begins[:-1], hashes], 1))
    write_array(_name(folder, number, "states.npy"), _as_kept(kept))
    for part, tensors in (("layers", [one.layers for one in found]), ("source", [one.source for one in found])):
        if tensors[0].numel():
            write_array(_name(folder, number, f"{part}.npy"), _as_kept(torch.cat(tensors).to(kept.dtype)))
    facts = StatesShard(rows=len(rows), tokens=int(begins[-1]), source_tokens=int(source_begins[-1]), rounding=error)
    facts.save(_name(folder, number, "json"))
    return facts


def _as_kept(tensor: Tensor) -> np.ndarray:
    bits = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    made: np.ndarray = bits.contiguous().numpy()
    return made


class _Shard:
    """A shard as it lies on the disk; only what is asked for is read."""

    def __init__(self, folder: Path, number: int, facts: StatesShard, origin: StatesOrigin) -> None:
        self._where, self._facts = (folder, number), facts
        self._precision = origin.precision
        self.rows: Int[np.ndarray, "R 3"] = self._mapped("rows", (facts.rows, 3))
        self._tokens = self._mapped("tokens", (facts.tokens + facts.source_tokens,))
        self._states = self._numbers("states", (facts.tokens, origin.width))
        self._layers = self._numbers("layers", (facts.tokens, origin.layers, origin.width)) if origin.layers else None
        width = origin.source_width
        self._source = None if width is None else self._numbers("source", (facts.source_tokens, width))

    def _mapped(self, part: str, shape: tuple[int, ...]) -> np.ndarray:
        path = _name(*self._where, f"{part}.npy")
        try:
            array: np.ndarray = np.load(path, mmap_mode="c", allow_pickle=False)  # nothing is written: copy on write
        except (OSError, ValueError, EOFError) as fault:
            said = "is missing" if isinstance(fault, FileNotFoundError) else "is cut off or damaged"
            raise ValueError(self._again(path, said)) from None
        if array.shape != shape:
            raise ValueError(self._again(path, f"has the shape {array.shape} and not {shape}"))
        return array

    def _numbers(self, part: str, shape: tuple[int, ...]) -> Tensor:
        tensor = torch.from_numpy(self._mapped(part, shape))
        return tensor.view(torch.bfloat16) if self._precision == "bfloat16" else tensor

    def _again(self, path: Path, said: str) -> str:
        return (
            f"states: must have all of their shards ('{path}' {said}); delete {path.name.partition('.')[0]}.json and "
            f"{MANIFEST} there and run the same 'nextword states build' again, which makes this shard anew"
        )

    def spans(self, at: int) -> tuple[slice, slice]:
        """Where the states of a row are, and those of its source."""
        ends = (*self.rows[at + 1, :2],) if at + 1 < len(self.rows) else (self._facts.tokens, self._facts.source_tokens)
        begin, source = self.rows[at, :2].tolist()
        return slice(begin, int(ends[0])), slice(source, int(ends[1]))

    def row(self, at: int) -> TokenRow:
        """The tokens of a row."""
        own, source = self.spans(at)
        begin = own.start + source.start
        middle = begin + source.stop - source.start
        ids = self._tokens[begin : middle + own.stop - own.start].tolist()
        return TokenRow(tuple(ids[middle - begin :]), tuple(ids[: middle - begin]))

    def states(self, at: int) -> RowStates:
        """The states of a row."""
        own, source = self.spans(at)
        nothing = self._states[:0]
        return RowStates(
            self._states[own],
            nothing[:, None] if self._layers is None else self._layers[own],
            nothing if self._source is None else self._source[source],
        )


class StoredStates:
    """The states of known rows, found by the rows' tokens.

    Raises:
        ValueError: The store is not finished, or one of its files is missing or cut off.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = manifest_of(self.folder)
        origin = self.manifest.origin
        self._shards = [_Shard(self.folder, number, facts, origin) for number, facts in enumerate(self.manifest.shards)]

    @cached_property
    def _found(self) -> tuple[Int[np.ndarray, "R"], Int[np.ndarray, "R 2"]]:
        # hashes of all rows in ascending order, and shard and number of each
        hashes = np.concatenate([shard.rows[:, 2] for shard in self._shards])
        where = [(number, at) for number, shard in enumerate(self._shards) for at in range(len(shard.rows))]
        order = np.argsort(hashes, kind="stable")
        return hashes[order], np.array(where)[order]

    def __len__(self) -> int:
        return sum(len(shard.rows) for shard in self._shards)

    def rows(self) -> Iterator[TokenRow]:
        """All rows, in the order in which they were stored."""
        for shard in self._shards:
            for at in range(len(shard.rows)):
                yield shard.row(at)

    def of(self, row: TokenRow) -> RowStates | None:
        """The states of a row; None where they are not stored."""
        hashes, where = self._found
        first, last = (int(np.searchsorted(hashes, row.hash, side)) for side in ("left", "right"))
        for number, at in where[first:last].tolist():
            if self._shards[number].row(at) == row:
                return self._shards[number].states(at)
        return None


def manifest_of(folder: Path) -> StatesManifest:
    """The manifest of a finished store; ValueError where there is none says whether a build was begun."""
    if not os.path.isfile(folder / MANIFEST):  # unlike Path.is_file, false for a name that no file can have
        begun = os.path.isfile(folder / BEGUN)
        raise ValueError(
            f"states: must be a finished store of states ('{folder}' "
            + ("was begun and not finished); run the same 'nextword states build' again" if begun else "given); ")
            + ("" if begun else "make one with 'nextword states build MODEL DATA --out FOLDER'")
        )
    return StatesManifest.load(folder / MANIFEST)


def checksum(rows: Iterable[TokenRow]) -> str:
    """Checksum of rows in order."""
    hashes = np.array([row.hash for row in rows], np.int64)
    return f"{len(hashes)} rows, {hashlib.blake2b(hashes.tobytes(), digest_size=8).hexdigest()}"
