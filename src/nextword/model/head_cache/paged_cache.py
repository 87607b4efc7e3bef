"""How memory at slots rides in the paged KV cache of transformers' continuous batching (``generate_batch``).

The cache is one object for all requests, and the model's forward is handed it in every pass, together with the slots
that the pass writes and reads. So the memory lies on that object, as its attribute ``head_memory``, and blocks that it
copies (a request that goes on in two ways) are copied there too. Its class and all other caches stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from nextword.model.head_cache.slots import PagedMemory, PassSlots, SlotMemory

_LAYERS = "full_attention"
"""The layers whose keys and values are kept for the whole text, and not for a window of it."""


class BlockCopies:
    """The cache's own copying of blocks, followed by that of the memory.

    The cache is held weakly, since it holds this method: a cycle would keep its tensors until the garbage collector
    runs.
    """

    def __init__(self, cache: Any, memory: SlotMemory) -> None:
        self._cache, self._memory = ref(cache), memory

    def perform_cache_copy(self, copy_src_and_dst: Mapping[str, tuple[list[int], list[int]]]) -> None:
        """As the cache's own."""
        cache = self._cache()
        assert cache is not None, "a cache calls its own methods"
        type(cache).perform_cache_copy(cache, copy_src_and_dst)
        source, target = copy_src_and_dst[_LAYERS]
        if source:
            size = cache.cache_allocators[_LAYERS].tokens_per_page
            self._memory.copy(_slots_of(source, size, cache.device), _slots_of(target, size, cache.device))


def _slots_of(blocks: list[int], size: int, device: Any) -> Tensor:
    """All slots of some blocks."""
    first = torch.tensor(blocks, device=device) * size
    return (first[:, None] + torch.arange(size, device=device)).flatten()


def keeps_whole_texts(cache: Any) -> bool:
    """Whether a paged cache has slots for every place of a text; one of sliding windows alone has not."""
    return _LAYERS in cache.cache_allocators


def memory_on(cache: Any) -> SlotMemory:
    """The memory that rides in a paged cache; it is put there where there is none yet."""
    memory: SlotMemory | None = getattr(cache, "head_memory", None)
    if memory is None:
        layers = cache.cache_allocators[_LAYERS]
        blocks = layers.num_blocks + 2 * layers.blocks_per_sector  # two sectors in front are never handed out
        memory = SlotMemory(blocks * layers.tokens_per_page)
        cache.head_memory = memory
        cache.perform_cache_copy = BlockCopies(cache, memory).perform_cache_copy
    return memory


def is_paged(arguments: Mapping[str, Any]) -> bool:
    """Whether a forward pass with these arguments belongs to continuous batching."""
    return "cu_seq_lens_q" in arguments and "write_index" in arguments


def paged_memory(arguments: Mapping[str, Any], count: int) -> PagedMemory:
    """The memory of one pass.

    Args:
        arguments: Those that continuous batching gives to forward.
        count: New tokens of the pass, those of all requests together.
    """
    cache = arguments["cache"]
    layers = cache.cache_allocators[_LAYERS]
    starts, lengths = arguments["cu_seq_lens_q"], _of_whole_texts(arguments["cu_seq_lens_k"]).diff()
    size, stride = layers.tokens_per_page, layers.block_physical_stride
    table = arguments.get("block_table")
    if table is not None:
        blocks = table[layers.index] // (stride // size)
        slots = PassSlots.of_blocks(starts, lengths, blocks, size, count)
    else:
        # nothing is read where no request has a past: what is written is all there is
        read, written = arguments["read_index"][layers.index], arguments["write_index"][layers.index]
        places = read if len(read) else written
        listed = places // stride * size + places % stride  # a block's rows are those of all its layers
        slots = PassSlots.of_list(starts, lengths, listed, count, _of_whole_texts(arguments.get("max_length_k")))
    return memory_on(cache).in_pass(slots)


def _of_whole_texts(by_layers: Any) -> Any:
    """What an argument says of the layers that see the whole text; transformers 5.18 says it without their name."""
    return by_layers[_LAYERS] if isinstance(by_layers, Mapping) else by_layers
