"""Slots as the paged cache of transformers gives them: listed in pieces, and as a table of blocks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.generation.continuous_batching.requests import RequestState

from nextword.model.head_cache.slots import is_paged, memory_on, paged_memory
from tests.helpers.batched import PAGE, batching, greedy, single

PAST, NEW = {"first": 9, "second": 0, "third": 4}, {"first": 1, "second": 6, "third": 3}


@pytest.fixture
def cache() -> Any:
    """A cache with blocks of three requests, handed out in turn."""
    manager = single("gpt2", "cache").init_continuous_batching(greedy(), batching())
    manager.warmup()
    cache = manager.batch_processor.cache
    requests = [RequestState(request_id=name, initial_tokens=[0]) for name in PAST]
    for past in range(0, 10, PAGE):
        for request in requests:
            new = min(PAGE, PAST[request.request_id] + NEW[request.request_id] - past)
            request.position_offset = past
            assert new <= 0 or cache.can_store_request_tokens(request, new)
    return cache


def arguments(cache: Any, **given: Any) -> dict[str, Any]:
    lengths = torch.tensor([0, *(PAST[name] + NEW[name] for name in PAST)]).cumsum(0).int()
    starts = torch.tensor([0, *NEW.values()]).cumsum(0).int()
    return {"cache": cache, "cu_seq_lens_q": starts, "cu_seq_lens_k": {"full_attention": lengths}} | given


def test_a_table_of_blocks_says_what_the_list_says(cache: Any) -> None:
    """The table comes with kernels of a GPU, which the tests of whole models do not run on."""
    layers = cache.cache_allocators["full_attention"]
    read, written = [], []
    table = torch.full((1, len(PAST), 5), -1, dtype=torch.int32)
    for row, name in enumerate(PAST):
        read += layers.get_read_indices(name, PAST[name], NEW[name])
        written += layers.get_write_indices(name, PAST[name], NEW[name])
        layers.fill_block_table(name, PAST[name], NEW[name], table[0, row])
    lists = arguments(cache, read_index=[torch.tensor(read)], write_index=[torch.tensor(written)], block_table=None)
    count = sum(NEW.values())
    listed, tabled = (
        paged_memory(given, count).slots for given in (lists, arguments(cache, write_index=[], block_table=table))
    )
    assert is_paged(lists)
    assert torch.equal(listed.held, tabled.held)
    assert torch.equal(listed.written, tabled.written)
    assert listed.position.tolist() == [place for name in PAST for place in range(PAST[name], PAST[name] + NEW[name])]
    # the cache numbers rows of all layers; a slot is a row of one of them
    positions = torch.tensor(written)
    assert torch.equal(listed.written // PAGE, positions // layers.block_physical_stride)
    assert torch.equal(listed.written % PAGE, positions % layers.block_physical_stride)


def test_without_a_past_what_is_written_is_read(cache: Any) -> None:
    written = torch.tensor(cache.cache_allocators["full_attention"].get_write_indices("second", 0, 6))
    given = {
        "cache": cache,
        "cu_seq_lens_q": torch.tensor([0, 6]),
        "cu_seq_lens_k": {"full_attention": torch.tensor([0, 6])},
        "read_index": [torch.zeros(0, dtype=torch.long)],
        "write_index": [written],
    }
    slots = paged_memory(given, 6).slots
    assert torch.equal(slots.held[0], slots.written)


def test_one_memory_for_a_cache(cache: Any) -> None:
    memory = memory_on(cache)
    assert memory_on(cache) is memory
    assert not is_paged({"cache": cache})
