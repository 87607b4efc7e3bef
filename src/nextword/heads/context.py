"""The input of a head: states at the positions to predict from, earlier positions, and the source text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.distribution.score_edits import EditMode
from nextword.distribution.vocabulary import Vocabulary
from nextword.functional.keys_in_place import Keys, StreamsInPlace, key_products
from nextword.functional.probability import at_least_float32


@dataclass(frozen=True)
class Memory:
    """The B sequences so far, as a head keeps them between decoding steps.

    Args:
        ids: Token at each position; negative if unknown, as for the virtual tokens of prefix tuning.
        valid: False at padding and unknown tokens.
        streams: A mapping from names to tensors (B, S, ...) with what the head keeps for each position, such as keys.
        labels: Label at each position, -100 where masked; None unless labels of the whole sequence were given.
        document: Number of the document at each position; None unless a sequence packs several documents.
    """

    ids: Int[Tensor, "B S"]
    valid: Bool[Tensor, "B S"]
    streams: Mapping[str, Tensor] = field(default_factory=dict)
    labels: Int[Tensor, "B S"] | None = None
    document: Int[Tensor, "B S"] | None = None

    def begins(self) -> Int[Tensor, "B S"]:
        """For each position, index of the first position of its document; 0 if ``document`` is None."""
        position = torch.arange(self.ids.shape[1], device=self.ids.device).expand_as(self.ids)
        if self.document is None:
            return torch.zeros_like(position)
        continues = torch.nn.functional.pad(self.document[:, 1:] == self.document[:, :-1], (1, 0), value=False)
        return position.masked_fill(continues, 0).cummax(1).values

    def keys(self, name: str) -> Keys:
        """The tensor ``streams[name]``, for products with queries in float32 or float64.

        If a serving engine holds this tensor, it is not copied.
        """
        streams = self.streams
        return streams.in_place(name) if isinstance(streams, StreamsInPlace) else at_least_float32(streams[name])

    def of(self, rows: slice) -> Memory:
        streams = {name: stream[rows] for name, stream in self.streams.items()}
        labels = None if self.labels is None else self.labels[rows]
        document = None if self.document is None else self.document[rows]
        return Memory(self.ids[rows], self.valid[rows], streams, labels, document)


@dataclass(frozen=True)
class Source:
    """The texts that an encoder read: their tokens ``ids`` and the encoder's last hidden ``states``.

    ``valid`` is False at padding. ``streams`` maps names to tensors (B, E, ...) that the head keeps for each position.
    """

    ids: Int[Tensor, "B E"]
    valid: Bool[Tensor, "B E"]
    states: Float[Tensor, "B E _"]
    streams: Mapping[str, Tensor] = field(default_factory=dict)

    def of(self, rows: slice) -> Source:
        streams = {name: stream[rows] for name, stream in self.streams.items()}
        return Source(self.ids[rows], self.valid[rows], self.states[rows], streams)


class Layout:
    """Arranges N positions of B sequences as (B, Q) for matrix products.

    ``row`` has the index of each position's sequence, in ascending order.
    """

    def __init__(self, row: Int[Tensor, "N"], batch_size: int) -> None:
        self.row = row
        self.batch_size = batch_size

    @cached_property
    def width(self) -> int:
        """Q, the largest number of positions in a sequence; computed lazily, because it synchronises the GPU."""
        return max(self.counts) if len(self.row) else 0

    @cached_property
    def counts(self) -> list[int]:
        """Number of positions in each sequence, computed once."""
        return self._counts.tolist()

    def occupied(self) -> tuple[Layout, slice]:
        """The layout without leading and trailing sequences that have no positions, and the slice of kept sequences."""
        having = [number for number, count in enumerate(self.counts) if count]
        if not having:
            return self, slice(0, self.batch_size)
        first, end = having[0], having[-1] + 1
        among = Layout(self.row - first, end - first)
        among.counts = self.counts[first:end]
        return among, slice(first, end)

    @cached_property
    def slot(self) -> Int[Tensor, "N"]:
        """Index of each position among the positions of its sequence."""
        return torch.arange(len(self.row), device=self.row.device) - (self._counts.cumsum(0) - self._counts)[self.row]

    @cached_property
    def _counts(self) -> Int[Tensor, "B"]:
        # not ``bincount``, which synchronises a GPU twice
        return self.row.new_zeros(self.batch_size).scatter_add_(0, self.row, torch.ones_like(self.row))

    @classmethod
    def full(cls, batch_size: int, width: int, device: torch.device) -> Layout:
        """Layout in which every sequence has ``width`` positions; made without a device synchronisation."""
        layout = cls.__new__(cls)
        layout.batch_size, layout.width = batch_size, width
        layout.row = torch.arange(batch_size, device=device).repeat_interleave(width)
        layout.slot = torch.arange(width, device=device).repeat(batch_size)
        return layout

    @property
    def is_full(self) -> bool:
        """Whether every sequence has the same number of positions."""
        return len(self.row) == self.batch_size * self.width

    def pack(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "B Q D"]:
        """Arranges ``rows``, one vector per position, as (B, Q, D), with zeros after the end of shorter sequences."""
        if self.is_full:
            return rows.unflatten(0, (self.batch_size, self.width))
        packed = rows.new_zeros(self.batch_size, self.width, rows.shape[-1])
        return packed.index_put((self.row, self.slot), rows)

    def unpack(self, packed: Float[Tensor, "B Q S"]) -> Float[Tensor, "N S"]:
        """The inverse of ``pack``."""
        return packed.flatten(0, 1) if self.is_full else packed[self.row, self.slot]

    def similarities(self, queries: Float[Tensor, "N D"], keys: Keys) -> Float[Tensor, "N S"]:
        """Dot product of each position's query with every key of its sequence, without autocast."""
        with torch.autocast(queries.device.type, enabled=False):  # half precision is too coarse for exponents and ranks
            return self.unpack(key_products(self.pack(queries), keys))


@dataclass(frozen=True)
class Context:
    """The complete input of a head for N positions.

    Args:
        states: The input of the backbone's output layer at each position.
        inputs: Input of the head's projections: ``states``, or wider vectors with ``+mi``.
        position: Index of each of the N positions in its sequence in ``memory``.
        layout: The sequence of each position.
        output_layer: The backbone's output layer with bias and scaling. Tensors that a conditioner adds to it have one
            row per sequence.
        memory: The sequences so far; None for a head that does not read earlier positions.
        source: The texts that the encoder read; None if there is no encoder or the head does not read them.
        input_embedding: Weight of the backbone's input embedding, for objectives that compare tokens; None if it is
            quantised, offloaded or sharded over processes.
        output_embedding: Weight of the backbone's output layer; None in the same cases as ``input_embedding``.
    """

    states: Float[Tensor, "N D"]
    inputs: Float[Tensor, "N Q"]
    position: Int[Tensor, "N"]
    layout: Layout
    output_layer: Vocabulary
    memory: Memory | None = None
    source: Source | None = None
    input_embedding: Float[Tensor, "V _"] | None = None
    output_embedding: Float[Tensor, "V _"] | None = None

    @property
    def row(self) -> Int[Tensor, "N"]:
        """Index of each position's sequence."""
        return self.layout.row

    @property
    def vocabulary(self) -> Vocabulary:
        """``output_layer`` with one row per position, not per sequence, in the tensors that a conditioner adds."""
        return self.output_layer.map(lambda of_sequences: of_sequences[self.row])

    def at(self, positions: Int[Tensor, "M"]) -> Context:
        """The context at ``positions`` (ascending indices), without the sequences before and after these positions."""
        layout, rows = Layout(self.row[positions], self.layout.batch_size).occupied()
        return replace(
            self,
            states=self.states[positions],
            inputs=self.inputs[positions],
            position=self.position[positions],
            layout=layout,
            output_layer=self.output_layer.map(lambda of_sequences: of_sequences[rows]),
            memory=None if self.memory is None else self.memory.of(rows),
            source=None if self.source is None else self.source.of(rows),
        )

    def similarities(self, queries: Float[Tensor, "N D"], keys: Keys) -> Float[Tensor, "N S"]:
        return self.layout.similarities(queries, keys)

    def word_scores(
        self, queries: Float[Tensor, "N D"], ids: Int[Tensor, "B K"], change: EditMode
    ) -> Float[Tensor, "N K"]:
        """Values of the K tokens in ``ids`` of each position's sequence, computed from its query in mode ``change``."""
        packed = change.scores_of(self.output_layer, self.layout.pack(queries), ids)
        return at_least_float32(self.layout.unpack(packed))

    def with_label_values(self) -> Context:
        """The same context with labels in place of the stored tokens (TRIME as released); ``valid`` does not change.

        Raises:
            ValueError: If labels of earlier positions are unknown, because the text began in another pass.
        """
        assert self.memory is not None, "objectives check that the head remembers"
        if self.memory.labels is None:
            raise ValueError(
                "memory_values: 'labels' must be used with whole texts (here a KV cache or earlier windows, as "
                "in training.consecutive, hold positions without labels); take 'inputs', the default"
            )
        return replace(self, memory=replace(self.memory, ids=self.memory.labels))


# -- The interface between a head's memory and one forward pass, which writes new positions and reads whole texts.
#
# Every position of a text has a slot with what a head keeps for the position: its token and its streams. There are two
# kinds of head caches:
#
# - ``HeadCache`` is part of an ordinary KV cache. A row of the pass is a text, and its slots are consecutive.
# - ``PagedHeadCache`` belongs to a serving engine. The engine packs the new positions of many requests into one pass,
#   and stores the earlier positions of each request in blocks. A row of the pass is one new position.
#
# A head uses both in the same way.

IDS, VALID = "ids", "valid"
"""Streams that every memory has: the token at each position, and whether it is a known token (not padding)."""

DOCUMENT = "document"
"""Stream of a memory with several documents: the document number of each position."""


class HeadCacheView(ABC):
    """Reads and writes the cache of a head during one forward pass.

    If the head reads a window of vectors at the last positions (``+mi``), call ``preceded`` first. Then call
    ``remember`` once; after that, ``recall`` returns the texts with the new positions.
    """

    def remember(
        self, ids: Tensor, valid: Tensor, streams: Mapping[str, Tensor], looks_back: int | None = None
    ) -> int | Tensor:
        """Writes the new positions (B, T) into the cache.

        Returns the index of the first new position: one number for all rows, or a tensor (B,).

        Args:
            ids: Tokens, negative if unknown.
            valid: False at padding.
            streams: A mapping from names to tensors (B, T, ...) that the head keeps; the same names in every pass.
            looks_back: Number of positions before the new ones that the head reads again; None: all.
        """
        # a copy, because the caller may write the next tokens into the same tensor
        return self.write({IDS: ids.clone(), VALID: valid & (ids >= 0), **streams}, looks_back)

    @abstractmethod
    def recall(self) -> Memory:
        """The texts so far, one row per text, including the new positions."""

    @abstractmethod
    def write(self, new: Mapping[str, Tensor], looks_back: int | None = None) -> int | Tensor:
        """Writes ``new``, a mapping from the name of each stream to its values (B, T, ...) at the new positions.

        Returns the index of the first new position, like ``remember``. Positions more than ``looks_back`` before the
        new ones may be dropped.
        """

    @abstractmethod
    def preceded(self, name: str, new: Tensor, positions: int) -> Tensor:
        """The values of a window at ``positions`` earlier positions, then at the new ones, (B, positions + T, ...).

        Values before the start of the text are zero.

        Args:
            name: Name of the window.
            new: Values (B, T, ...) that the head computes at the new positions.
            positions: Number of earlier positions returned; the same in every pass.

        Raises:
            ValueError: If fewer earlier positions of this window are kept.
        """
