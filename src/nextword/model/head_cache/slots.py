"""A head cache with one entry per slot (memory of one token) of a serving engine's KV cache.

An engine packs the new tokens of many requests into one row, stores keys and values in blocks, shares the blocks of
equal prefixes between requests, and preempts requests. A head cache per request would not follow these operations, so
the head's values are stored per slot. Like keys and values, the head's values at a position depend only on the tokens
up to it. So prefix sharing, chunked prompts and preemption work without further code.

How an engine uses it, with ``packed_inputs`` of ``nextword.model.forward.head_inputs``::

    memory = SlotMemory(blocks * block_size)  # made once, like the KV cache

    # in every pass, after the backbone has computed its states
    slots = SlotMapping.of_blocks(starts, lengths, table, block_size, count)  # slots of requests and new tokens
    tokens = PackedTokens(ids, states, layers)
    packed = packed_inputs(head, OutputParts(output_layer), tokens, memory.in_pass(slots))  # writes the new tokens

    # for rows of any requests whose next token is needed, now or later
    log_probs = head(packed.last(rows)).log_probs()

An engine that copies a block (for a request with two continuations) calls ``memory.copy`` with the block's slots. If a
block is swapped out of the cache, its tokens must be computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import ref

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from nextword.functional.keys_in_place import StreamsInPlace
from nextword.heads.context import IDS, VALID, HeadCacheView, Memory


@dataclass(frozen=True)
class SlotMapping:
    """The slots of the tokens of one pass: N new tokens of R requests, concatenated in one row.

    Args:
        starts: Index in the row of each request's first new token, followed by N: R + 1 numbers.
        lengths: Number of tokens of each request so far, including new tokens; at least 1.
        held: For each request, the slot of each of its tokens. Entries after its last token repeat its first slot.
        count: N as a Python number, so that it need not be read from the device.
    """

    starts: Int[Tensor, "_R"]
    lengths: Int[Tensor, "R"]
    held: Int[Tensor, "R S"]
    count: int

    @classmethod
    def of_blocks(
        cls,
        starts: Int[Tensor, "_R"],
        lengths: Int[Tensor, "R"],
        table: Int[Tensor, "R M"],
        block_size: int,
        count: int,
        longest: int | None = None,
    ) -> SlotMapping:
        """Makes the mapping from the blocks of each request.

        Args:
            starts: See the class.
            lengths: See the class.
            table: Blocks of each request in order; entries after a request's last block are ignored.
            block_size: Number of slots per block; block b begins at slot ``b * block_size``.
            count: Number N of new tokens.
            longest: Maximum of ``lengths``; None: computed on the device.
        """
        within = _positions(lengths, longest)
        blocks = table.long().gather(1, within // block_size)
        return cls(starts.long(), lengths.long(), blocks * block_size + within % block_size, count)

    @classmethod
    def of_list(
        cls,
        starts: Int[Tensor, "_R"],
        lengths: Int[Tensor, "R"],
        listed: Int[Tensor, "K"],
        count: int,
        longest: int | None = None,
    ) -> SlotMapping:
        """Makes the mapping from ``listed``, all slots of each request in turn. Other arguments: see ``of_blocks``."""
        lengths = lengths.long()
        first = lengths.cumsum(0) - lengths
        return cls(starts.long(), lengths, listed.long()[first[:, None] + _positions(lengths, longest)], count)

    @cached_property
    def request(self) -> Int[Tensor, "N"]:
        """Index of the request of each new token."""
        return torch.searchsorted(self.starts[1:], torch.arange(self.count, device=self.starts.device), right=True)

    @cached_property
    def position(self) -> Int[Tensor, "N"]:
        """Position of each new token in the text of its request."""
        before_end = self.starts[1:][self.request] - torch.arange(self.count, device=self.starts.device)
        return self.lengths[self.request] - before_end

    @cached_property
    def written(self) -> Int[Tensor, "N"]:
        """Slot to which the values of each new token are written."""
        return self.held[self.request, self.position]

    def before(self, positions: int) -> tuple[Int[Tensor, "N W"], Shaped[Tensor, "N W"]]:
        """For each new token, the slots of the ``positions`` tokens before it and its own slot (W = ``positions`` + 1).

        Also returns a mask: True at entries before the first token of the text.
        """
        position = self.position[:, None] + torch.arange(-positions, 1, device=self.position.device)
        return self.held[self.request[:, None], position.clamp(min=0)], position < 0


def _positions(lengths: Int[Tensor, "R"], longest: int | None) -> Int[Tensor, "R S"]:
    """Positions ``[0, 1, ...]`` of each text, and 0 after its end."""
    position = torch.arange(int(lengths.max()) if longest is None else longest, device=lengths.device)
    return torch.where(position < lengths[:, None], position, 0)


class SlotMemory:
    """Head cache for all slots of an engine's KV cache: tensors (slots, ...), each allocated when first written.

    Slots are numbered from 0.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.streams: dict[str, Tensor] = {}
        self.windows: dict[str, Tensor] = {}

    def in_pass(self, slots: SlotMapping) -> PagedHeadCache:
        """Returns the head cache of one pass, whose tokens have these ``slots``."""
        return PagedHeadCache(self, slots)

    def write(self, slots: Int[Tensor, "N"], new: Mapping[str, Tensor], *, windows: bool = False) -> None:
        """Writes ``new``, a mapping from stream name (``windows``: window name) to values (N, ...), to N ``slots``."""
        kept = self.windows if windows else self.streams
        for name, stream in new.items():
            if name not in kept:
                kept[name] = stream.new_zeros(self._slots, *stream.shape[1:])
            kept[name].index_copy_(0, slots, stream.to(kept[name].dtype))

    def copy(self, source: Int[Tensor, "K"], target: Int[Tensor, "K"]) -> None:
        """Copies slot ``source[i]`` to slot ``target[i]``."""
        for kept in (*self.streams.values(), *self.windows.values()):
            kept.index_copy_(0, target, kept[source])

    @property
    def bytes_per_slot(self) -> int:
        """Bytes per slot of the streams and windows written so far."""
        return sum(kept[0].numel() * kept.element_size() for kept in (*self.streams.values(), *self.windows.values()))


class PagedHeadCache(HeadCacheView):
    """The head cache of one pass at the engine's slots: one row per new token, (N, 1, ...)."""

    def __init__(self, memory: SlotMemory, slots: SlotMapping) -> None:
        self._memory, self.slots = memory, slots

    def write(self, new: Mapping[str, Tensor], looks_back: int | None = None) -> Tensor:
        """Writes ``new`` (N, 1, ...) to the slots of the new tokens; returns each token's position (N,) in its text."""
        self._memory.write(self.slots.written, {name: stream[:, 0] for name, stream in new.items()})
        return self.slots.position

    def recall(self) -> Memory:
        """The texts of all requests, one row per request."""
        return self.recall_of(slice(None))

    def recall_of(self, requests: Int[Tensor, "M"] | slice) -> Memory:
        """The texts of ``requests``, one row for each, in this order; requests may repeat."""
        lengths, held, streams = self.slots.lengths[requests], self.slots.held[requests], self._memory.streams
        inside = torch.arange(held.shape[1], device=held.device) < lengths[:, None]
        # number of slots that each row needs; None if reading it would wait for the device
        counts = tuple(lengths.tolist()) if lengths.device.type == "cpu" else None
        others = {name: stream for name, stream in streams.items() if name not in (IDS, VALID)}
        return Memory(streams[IDS][held], streams[VALID][held] & inside, StreamsInPlace(others, held, counts))

    def preceded(self, name: str, new: Tensor, positions: int) -> Tensor:
        """See ``HeadCacheView.preceded``. Returns (N, positions + 1, ...). All positions of a window are kept."""
        self._memory.write(self.slots.written, {name: new[:, 0]}, windows=True)
        slots, before_start = self.slots.before(positions)
        window = self._memory.windows[name][slots]
        return window.masked_fill(before_start.reshape(*before_start.shape, *[1] * (window.ndim - 2)), 0)


# -- The head cache in the paged KV cache of transformers' continuous batching (``generate_batch``).
#
# The KV cache is one object for all requests. The model's forward gets it in every pass, together with the slots that
# the pass writes and reads. So the head cache is this object's attribute ``head_memory``. If the KV cache copies blocks
# (a request that continues in two ways), their values in the head cache are copied too. The class of the KV cache and
# all other caches are not changed.

# the type of layers that keep keys and values for the whole text, not only for a window
_LAYERS = "full_attention"


class BlockCopies:
    """Replaces the method of a paged KV cache that copies blocks, so that the head cache copies the same blocks.

    The reference to the KV cache is weak. A strong one would keep its tensors until the garbage collector runs.
    """

    def __init__(self, cache: Any, memory: SlotMemory) -> None:
        self._cache, self._memory = ref(cache), memory

    def perform_cache_copy(self, copy_src_and_dst: Mapping[str, tuple[list[int], list[int]]]) -> None:
        """Copies blocks as the cache does, then copies the slots of these blocks in the head cache."""
        cache = self._cache()
        assert cache is not None, "a cache calls its own methods"
        type(cache).perform_cache_copy(cache, copy_src_and_dst)
        source, target = copy_src_and_dst[_LAYERS]
        if source:
            size = cache.cache_allocators[_LAYERS].tokens_per_page
            self._memory.copy(_slots_of(source, size, cache.device), _slots_of(target, size, cache.device))


def _slots_of(blocks: list[int], size: int, device: Any) -> Tensor:
    first = torch.tensor(blocks, device=device) * size
    return (first[:, None] + torch.arange(size, device=device)).flatten()


def memory_on(cache: Any) -> SlotMemory:
    """The ``SlotMemory`` attached to a paged KV cache; if there is none, a new one is attached."""
    memory: SlotMemory | None = getattr(cache, "head_memory", None)
    if memory is None:
        layers = cache.cache_allocators[_LAYERS]
        blocks = layers.num_blocks + 2 * layers.blocks_per_sector  # the first two sectors are never assigned
        memory = SlotMemory(blocks * layers.tokens_per_page)
        cache.head_memory = memory
        cache.perform_cache_copy = BlockCopies(cache, memory).perform_cache_copy
    return memory


def is_paged(arguments: Mapping[str, Any]) -> bool:
    """Whether a forward pass with these arguments belongs to continuous batching."""
    return "cu_seq_lens_q" in arguments and "write_index" in arguments


def paged_memory(arguments: Mapping[str, Any], count: int) -> PagedHeadCache:
    """The head cache of one pass over ``count`` new tokens, from continuous batching's arguments of forward."""
    cache = arguments["cache"]
    layers = cache.cache_allocators[_LAYERS]
    starts, lengths = arguments["cu_seq_lens_q"], _of_whole_texts(arguments["cu_seq_lens_k"]).diff()
    size, stride = layers.tokens_per_page, layers.block_physical_stride
    table = arguments.get("block_table")
    if table is not None:
        blocks = table[layers.index] // (stride // size)
        slots = SlotMapping.of_blocks(starts, lengths, blocks, size, count)
    else:
        # if no request has earlier tokens, no slots are read, and the written slots are all slots
        read, written = arguments["read_index"][layers.index], arguments["write_index"][layers.index]
        positions = read if len(read) else written
        listed = positions // stride * size + positions % stride  # a block has rows for all of its layers
        slots = SlotMapping.of_list(starts, lengths, listed, count, _of_whole_texts(arguments.get("max_length_k")))
    return memory_on(cache).in_pass(slots)


def _of_whole_texts(by_layers: Any) -> Any:
    """The argument's value for layers with full attention. transformers 5.18 gives the value without a layer name."""
    return by_layers[_LAYERS] if isinstance(by_layers, Mapping) else by_layers
