"""What a head is given: states at the positions that count, what came before them, the source text."""

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
    """The sequences so far, as remembered between decoding steps.

    Args:
        ids: Token at each position; negative where it is unknown (virtual tokens of prefix tuning).
        valid: False at padding and unknown tokens.
        streams: What the head asked to keep for each position, by name: (B, S, ...) each.
        labels: Label at each position, where the whole sequence came with labels; -100 where it is masked.
        document: Number of the document at each position, where a sequence has several that do not see each other.
    """

    ids: Int[Tensor, "B S"]
    valid: Bool[Tensor, "B S"]
    streams: Mapping[str, Tensor] = field(default_factory=dict)
    labels: Int[Tensor, "B S"] | None = None
    document: Int[Tensor, "B S"] | None = None

    def begins(self) -> Int[Tensor, "B S"]:
        """Where the document at each position begins, as far as it is remembered; 0 where there is only one."""
        position = torch.arange(self.ids.shape[1], device=self.ids.device).expand_as(self.ids)
        if self.document is None:
            return torch.zeros_like(position)
        continues = torch.nn.functional.pad(self.document[:, 1:] == self.document[:, :-1], (1, 0), value=False)
        return position.masked_fill(continues, 0).cummax(1).values

    def keys(self, name: str) -> Keys:
        """A stream that is compared with queries, in single precision or more; that of a serving engine in place."""
        streams = self.streams
        return streams.in_place(name) if isinstance(streams, StreamsInPlace) else at_least_float32(streams[name])

    def of(self, rows: slice) -> Memory:
        streams = {name: stream[rows] for name, stream in self.streams.items()}
        labels = None if self.labels is None else self.labels[rows]
        document = None if self.document is None else self.document[rows]
        return Memory(self.ids[rows], self.valid[rows], streams, labels, document)


@dataclass(frozen=True)
class Source:
    """The encoder's side of an encoder-decoder model: tokens, last hidden states, and what the head keeps by name."""

    ids: Int[Tensor, "B E"]
    valid: Bool[Tensor, "B E"]
    states: Float[Tensor, "B E _"]
    streams: Mapping[str, Tensor] = field(default_factory=dict)

    def of(self, rows: slice) -> Source:
        streams = {name: stream[rows] for name, stream in self.streams.items()}
        return Source(self.ids[rows], self.valid[rows], self.states[rows], streams)


class Layout:
    """Which sequence each of the N positions belongs to, ascending, and how to lay them out as (B, Q) for products."""

    def __init__(self, row: Int[Tensor, "N"], batch_size: int) -> None:
        self.row = row
        self.batch_size = batch_size

    @cached_property
    def width(self) -> int:
        """Q, the most positions that a sequence has; asked by what lays positions out, since a GPU must stop for it."""
        return max(self.counts) if len(self.row) else 0

    @cached_property
    def counts(self) -> list[int]:
        """How many positions each sequence has, looked at once."""
        return self._counts.tolist()

    def occupied(self) -> tuple[Layout, slice]:
        """The layout among those sequences alone from the first to the last one with positions, and which these are."""
        having = [number for number, count in enumerate(self.counts) if count]
        if not having:
            return self, slice(0, self.batch_size)
        first, end = having[0], having[-1] + 1
        among = Layout(self.row - first, end - first)
        among.counts = self.counts[first:end]
        return among, slice(first, end)

    @cached_property
    def slot(self) -> Int[Tensor, "N"]:
        """Place of each position among those of its sequence."""
        return torch.arange(len(self.row), device=self.row.device) - (self._counts.cumsum(0) - self._counts)[self.row]

    @cached_property
    def _counts(self) -> Int[Tensor, "B"]:
        # not ``bincount``: for it a GPU must stop twice, to look at the numbers
        return self.row.new_zeros(self.batch_size).scatter_add_(0, self.row, torch.ones_like(self.row))

    @classmethod
    def full(cls, batch_size: int, width: int, device: torch.device) -> Layout:
        """Every sequence with the same number of positions; made without looking at any value."""
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
        """(N, D) as (B, Q, D), zeros where a sequence has fewer than Q positions."""
        if self.is_full:
            return rows.unflatten(0, (self.batch_size, self.width))
        packed = rows.new_zeros(self.batch_size, self.width, rows.shape[-1])
        return packed.index_put((self.row, self.slot), rows)

    def unpack(self, packed: Float[Tensor, "B Q S"]) -> Float[Tensor, "N S"]:
        """The inverse of ``pack``."""
        return packed.flatten(0, 1) if self.is_full else packed[self.row, self.slot]

    def similarities(self, queries: Float[Tensor, "N D"], keys: Keys) -> Float[Tensor, "N S"]:
        """Dot product of each position's query with every key of its own sequence, in the precision of its inputs."""
        with torch.autocast(queries.device.type, enabled=False):  # half precision is too coarse for exponents and ranks
            return self.unpack(key_products(self.pack(queries), keys))


@dataclass(frozen=True)
class Context:
    """All that a head may look at for N positions.

    Args:
        states: What the backbone feeds its output layer at each position.
        inputs: What the head's projections and gates read there: the states, or wider with multiple inputs.
        position: Position of each position within the memory of its sequence.
        layout: Which sequence each position belongs to.
        output_layer: The backbone's output layer with all that belongs to it, a row for each sequence.
        memory: The sequences so far; None for a head that remembers nothing.
        source: The encoder's side; None for a decoder-only model or a head that needs none.
        input_embedding: Weight of the backbone's input embedding, for objectives that compare tokens; None where
            it cannot be read (quantised, offloaded).
        output_embedding: Weight of its output layer, likewise.
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
        """Which sequence each position belongs to."""
        return self.layout.row

    @property
    def vocabulary(self) -> Vocabulary:
        """The output layer as it is asked from each of the N positions."""
        return self.output_layer.map(lambda of_sequences: of_sequences[self.row])

    def at(self, positions: Int[Tensor, "M"]) -> Context:
        """The context at some of the N positions, given so that rows ascend; it holds no sequences beyond theirs."""
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
        """What each position's query of the output embedding gives to K words of its sequence."""
        packed = change.scores_of(self.output_layer, self.layout.pack(queries), ids)
        return at_least_float32(self.layout.unpack(packed))

    def with_label_values(self) -> Context:
        """The same context with labels as the tokens in memory (TRIME as released); positions keep their validity.

        Raises:
            ValueError: Labels of earlier positions are not known: the text began in another pass.
        """
        assert self.memory is not None, "objectives check that the head remembers"
        if self.memory.labels is None:
            raise ValueError(
                "memory_values: 'labels' must be with whole texts (here a KV cache or a memory of earlier windows, as "
                "in training.consecutive, holds positions without labels); take 'inputs', the default, as in mle"
            )
        return replace(self, memory=replace(self.memory, ids=self.memory.labels))


# -- The contract between a head's memory and one forward pass: new positions are written, whole texts are read.
#
# Every position of a text has a slot, and what a head keeps of the position (its token, its streams) lies there. Who
# says which slot that is differs:
#
# - A ``HeadCache`` rides in an ordinary KV cache. A row of the pass is a text, and its slots lie one behind the other.
# - ``PagedHeadCache`` belongs to a serving engine, which packs the new positions of many requests side by side and
# keeps   the past of each in blocks. A row of the pass is one new position.
#
# A head is asked in the same way with either, and does not know which it has.

IDS, VALID = "ids", "valid"
"""Streams that every memory has: the token at each position, and whether it is a known token and no padding."""

DOCUMENT = "document"
"""Stream of a memory of several documents: the number of the one at each position."""


class HeadCacheView(ABC):
    """What one forward pass does with the memory of a head.

    ``preceded`` is called for every window of the head, then ``remember`` once; after it ``recall`` gives the texts
    with the new positions in them.
    """

    def remember(
        self, ids: Tensor, valid: Tensor, streams: Mapping[str, Tensor], looks_back: int | None = None
    ) -> int | Tensor:
        """Writes the new positions (B, T) of this pass; returns where each row's first one stands: a number, or (B,).

        Args:
            ids: Tokens, negative where unknown.
            valid: False at padding.
            streams: What the head keeps of each position, (B, T, ...) by name; the same names in every pass.
            looks_back: How many positions before the new ones the head reads again; None: all.
        """
        # a copy: the caller may write the next tokens where these are
        return self.write({IDS: ids.clone(), VALID: valid & (ids >= 0), **streams}, looks_back)

    @abstractmethod
    def recall(self) -> Memory:
        """The texts so far, a row for each, the new positions in them."""

    @abstractmethod
    def write(self, new: Mapping[str, Tensor], looks_back: int | None = None) -> int | Tensor:
        """Writes the new positions (B, T, ...) of all streams; returns the position of the first of them.

        What lies further back than ``looks_back`` positions before them may be forgotten.
        """

    @abstractmethod
    def preceded(self, name: str, new: Tensor, positions: int) -> Tensor:
        """New positions (B, T, ...) of a window behind earlier ones (B, positions + T, ...); zeros before the start.

        Args:
            name: Name of the window.
            new: What the head computes from each new position.
            positions: How many earlier positions come back; the same in every pass.

        Raises:
            ValueError: What is kept of this window does not reach back so far.
        """
