"""A store: the hidden states of a backbone at every token of given texts (rows), in files that may exceed the memory.

A store is divided into shards. A shard contains whole rows, one after another:

    shard-00000.tokens.npy   token ids of all its rows
    shard-00000.rows.npy     for each row: number of tokens and number of source tokens before it; hash of the row
    shard-00000.states.npy   input of the output layer at each token, without source tokens
    shard-00000.layers.npy   lower hidden states at each token, for ``+mi``; also the last hidden states if they are not
                             the input of the output layer
    shard-00000.source.npy   the encoder's last hidden states, for an encoder-decoder model
    shard-00000.json         written last; if it is missing, the next build makes the shard again

The token ids of a row of an encoder-decoder model are those of its source, followed by those that the decoder reads.
"""

from __future__ import annotations

import hashlib
import math
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

from nextword.runtime.files import Record
from nextword.runtime.shard_files import StoreKind, shard_file, write_array

MANIFEST = "states.json"

STATES = StoreKind("states", "store of states", MANIFEST, "nextword states build")

Precision = Literal["bfloat16", "float16", "float32", "float64"]

# numpy has no bfloat16, so its bits are stored as integers
_KEPT_AS: dict[str, Any] = {
    "bfloat16": np.int16,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}


@dataclass(frozen=True)
class TokenRow:
    """One row of a store: the tokens of a text, and for an encoder-decoder model the tokens of its source."""

    ids: tuple[int, ...]
    source: tuple[int, ...] = ()

    @property
    def hash(self) -> int:
        """A 64-bit hash of the row, used to look it up."""
        content = np.array([len(self.source), *self.source, *self.ids], np.int32).tobytes()
        return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


@dataclass(frozen=True)
class RowStates:
    """The states of one row.

    ``states`` are the inputs of the output layer, ``layers`` are K hidden states per token (last layer first), and
    ``source`` are the encoder's last hidden states.
    """

    states: Float[Tensor, "T D"]
    layers: Float[Tensor, "T K D"]
    source: Float[Tensor, "S E"]


class StatesOrigin(Record):
    """Everything that determines the content of a store. Two builds into the same folder must have equal origins."""

    format: Literal["nextword-states/1"] = "nextword-states/1"
    """Name and version of the format. A reader rejects other versions."""
    model: str
    """Folder, file or hub name of the model."""
    model_fingerprint: str | None
    """Fingerprint of the model's weights; None if the weights were in half precision, or not all in memory."""
    tokenizer: str
    """Fingerprint of the model's tokenizer."""
    task: dict[str, JsonValue]
    """The task from which the rows were made, with its data."""
    rows: str
    """Checksum of all rows, in order."""
    width: int
    """D: width of a state."""
    source_width: int | None
    """E: width of the encoder's states; None for a decoder-only model."""
    layers: int
    """K: number of hidden states stored per token, for ``+mi``."""
    state_scale: float
    """Factor by which the last hidden state is multiplied before the output layer reads it."""
    precision: Precision
    """Precision of the stored states."""
    shard_tokens: int
    """Minimum number of tokens per shard; the last shard may have fewer."""


class StatesShard(Record):
    """Facts of one shard. Their file is written after the other files of the shard."""

    rows: int
    """Number of rows."""
    tokens: int
    """Number of tokens of all rows."""
    source_tokens: int
    """Number of tokens of all sources."""
    rounding: float
    """Norm of the rounding error of the stored states, divided by the norm of the states."""
    layers_begin: int = 0
    """Index of the first hidden state in the file of layers: 1 if the last hidden states are in the file of states."""


class StatesManifest(Record):
    """Facts of a finished store."""

    nextword: str
    """Version of nextword that wrote the store."""
    origin: StatesOrigin
    """Everything that determines the store's content."""
    shards: list[StatesShard]
    """Facts of all shards, in order."""
    built_in: str | None = None
    """The working directory of the build. Relative file names refer to it."""

    @property
    def tokens(self) -> int:
        """Number of tokens in the whole store."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def rounding(self) -> float:
        """The largest relative rounding error of a shard, see ``StatesShard.rounding``."""
        return max((shard.rounding for shard in self.shards), default=0.0)


def write_shard(
    folder: Path, number: int, rows: Sequence[TokenRow], found: Sequence[RowStates], precision: Precision
) -> StatesShard:
    """Writes ``rows`` with their states ``found`` as shard ``number``; the facts of the shard are written last.

    Raises:
        DiskFullError: If there is not enough disk space.
        ValueError: If a state is NaN, or too large for ``precision``.
    """
    begins = np.cumsum([0, *(len(row.ids) for row in rows)])
    source_begins = np.cumsum([0, *(len(row.source) for row in rows)])
    hashes = np.array([row.hash for row in rows], np.int64)
    ids = np.array([token for row in rows for token in (*row.source, *row.ids)], np.int32)
    begin = int(all(one.layers.shape[1] and torch.equal(one.layers[:, 0], one.states) for one in found))
    parts = {
        "states": [one.states for one in found],
        "layers": [one.layers[:, begin:] for one in found],
        "source": [one.source for one in found],
    }
    kept = {part: _kept(tensors, precision) for part, tensors in parts.items()}
    rounding = _rounding(parts["states"], kept["states"])
    write_array(shard_file(folder, number, "tokens.npy"), ids)
    write_array(shard_file(folder, number, "rows.npy"), np.stack([begins[:-1], source_begins[:-1], hashes], 1))
    for part, tensor in kept.items():
        if tensor.numel():
            write_array(shard_file(folder, number, f"{part}.npy"), _as_kept(tensor))
    facts = StatesShard(
        rows=len(rows),
        tokens=int(begins[-1]),
        source_tokens=int(source_begins[-1]),
        rounding=rounding,
        layers_begin=begin,
    )
    facts.save(shard_file(folder, number, "json"))
    return facts


def _kept(tensors: Sequence[Tensor], precision: Precision) -> Tensor:
    kept = torch.cat([one.to(getattr(torch, precision)) for one in tensors])
    if not bool(torch.isfinite(kept).all()):
        largest = max(float(one.abs().max()) for one in tensors if one.numel())
        raise ValueError(
            f"states: must be finite numbers in {precision} (the model gives {largest:.3g}); give another precision, "
            "such as --precision bfloat16"
        )
    return kept


def _rounding(exact: Sequence[Tensor], kept: Tensor) -> float:
    # row by row, because a copy of a whole shard in double precision takes gigabytes
    errors = size = 0.0
    for one, other in zip(exact, kept.split([len(one) for one in exact]), strict=True):
        errors += float((other.double() - one.double()).square().sum())
        size += float(one.double().square().sum())
    return math.sqrt(errors / size) if size else 0.0


def _as_kept(tensor: Tensor) -> np.ndarray:
    bits = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    made: np.ndarray = bits.contiguous().numpy()
    return made


class _Rows:
    """The rows of an array in a file. Each access reads its rows from the file, and none are kept in memory.

    This is not a memory map. A process may have about a thousand files open, and a store has more files. Also, pages of
    a map that were read once count as the process's memory.
    """

    def __init__(self, path: Path, dtype: Any, shape: tuple[int, ...]) -> None:
        self._path, self._dtype, self._shape = path, np.dtype(dtype), shape
        self._row_size = int(np.prod(shape[1:]))
        try:
            with path.open("rb") as file:
                np.lib.format.read_magic(file)
                found, in_columns, kind = np.lib.format.read_array_header_1_0(file)
                self._begin = file.tell()
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            raise STATES.damaged(path, "is missing") from None
        except (OSError, ValueError) as fault:
            raise STATES.damaged(
                path, "cannot be read" if isinstance(fault, OSError) else "is cut off or damaged"
            ) from None
        if found != shape:
            raise STATES.damaged(path, f"has the shape {found} and not {shape}")
        if in_columns or kind != self._dtype:
            raise STATES.damaged(path, f"has numbers of type {kind} and not {self._dtype}")
        if size != self._begin + len(self) * self._row_size * self._dtype.itemsize:
            raise STATES.damaged(path, "is cut off or damaged")

    def __len__(self) -> int:
        return self._shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        count = (rows.stop - rows.start) * self._row_size
        begin = self._begin + rows.start * self._row_size * self._dtype.itemsize
        try:
            read = np.fromfile(self._path, self._dtype, count, offset=begin)
        except FileNotFoundError:
            raise STATES.damaged(self._path, "is missing") from None
        if len(read) != count:
            raise STATES.damaged(self._path, "is cut off or damaged")
        return read.reshape(-1, *self._shape[1:])


class _Shard:
    """A shard on the disk. Only requested rows are read."""

    def __init__(self, folder: Path, number: int, facts: StatesShard, origin: StatesOrigin) -> None:
        self._facts, self._precision, kept = facts, origin.precision, _KEPT_AS[origin.precision]

        def of(part: str, *shape: int, dtype: Any = kept) -> _Rows:
            return _Rows(shard_file(folder, number, f"{part}.npy"), dtype, shape)

        self.rows: Int[np.ndarray, "R 3"] = of("rows", facts.rows, 3, dtype=np.int64)[0 : facts.rows]
        self._tokens = of("tokens", facts.tokens + facts.source_tokens, dtype=np.int32)
        self._states = of("states", facts.tokens, origin.width)
        lower = origin.layers - facts.layers_begin
        self._layers = of("layers", facts.tokens, lower, origin.width) if lower else None
        self._source = None if origin.source_width is None else of("source", facts.source_tokens, origin.source_width)

    def spans(self, at: int) -> tuple[slice, slice]:
        """The range of the states of a row, and the range of the states of its source."""
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
        states = self._numbers(self._states[own])
        layers = states[:, None][:, : self._facts.layers_begin]
        if self._layers is not None:
            layers = torch.cat([layers, self._numbers(self._layers[own])], 1)
        return RowStates(states, layers, states[:0] if self._source is None else self._numbers(self._source[source]))

    def _numbers(self, kept: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(kept)
        return tensor.view(torch.bfloat16) if self._precision == "bfloat16" else tensor


class StoredStates:
    """The rows of a finished store in ``folder``. The states of a row are looked up by its tokens.

    Raises:
        ValueError: If the store is not finished, or one of its files is missing or truncated.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = manifest_of(self.folder)
        origin = self.manifest.origin
        self._shards = [_Shard(self.folder, number, facts, origin) for number, facts in enumerate(self.manifest.shards)]

    @cached_property
    def _found(self) -> tuple[Int[np.ndarray, "R"], Int[np.ndarray, "R 2"]]:
        # the hashes of all rows in ascending order, and for each the shard and the number in the shard
        hashes = np.concatenate([shard.rows[:, 2] for shard in self._shards])
        counts = [len(shard.rows) for shard in self._shards]
        where = np.stack([np.repeat(np.arange(len(counts)), counts), np.concatenate([*map(np.arange, counts)])], 1)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], where[order]

    def __len__(self) -> int:
        return sum(len(shard.rows) for shard in self._shards)

    def __deepcopy__(self, memo: Any) -> StoredStates:
        return self  # its content never changes

    def rows(self) -> Iterator[TokenRow]:
        """All rows, in the order in which they were stored."""
        for shard in self._shards:
            for at in range(len(shard.rows)):
                yield shard.row(at)

    def __contains__(self, row: TokenRow) -> bool:
        return self._place(row) is not None

    def has_all(self, rows: Iterable[TokenRow]) -> bool:
        """Whether all given rows are stored. Their states are not read."""
        return all(row in self for row in rows)

    def of(self, row: TokenRow) -> RowStates | None:
        """The states of a row; None if they are not stored."""
        place = self._place(row)
        return None if place is None else self._shards[place[0]].states(place[1])

    def _place(self, row: TokenRow) -> tuple[int, int] | None:
        # number of the shard of a row, and number of the row in this shard
        hashes, where = self._found
        first, last = (int(np.searchsorted(hashes, row.hash, side)) for side in ("left", "right"))
        return next(((at, nth) for at, nth in where[first:last].tolist() if self._shards[at].row(nth) == row), None)


def manifest_of(folder: Path) -> StatesManifest:
    """Reads the manifest of the finished store in ``folder``. Raises ValueError if there is none.

    Relative file names of the manifest are looked up in the working directory, then in ``manifest.built_in``.
    """
    manifest = STATES.manifest_in(folder, StatesManifest)
    origin, home = manifest.origin, Path(manifest.built_in or "")

    def found(name: str) -> str:
        return str(home / name) if not os.path.exists(name) and os.path.exists(home / name) else name

    files = {key: name for key, name in origin.task.items() if key in ("data", "encoder") and isinstance(name, str)}
    task = origin.task | {key: found(name) for key, name in files.items()}
    return manifest.model_copy(
        update={"origin": origin.model_copy(update={"model": found(origin.model), "task": task})}
    )


def checksum(rows: Iterable[TokenRow]) -> str:
    """Number of rows, and a checksum of their tokens in order, as a text."""
    hashes = np.array([row.hash for row in rows], np.int64)
    return f"{len(hashes)} rows, {hashlib.blake2b(hashes.tobytes(), digest_size=8).hexdigest()}"
