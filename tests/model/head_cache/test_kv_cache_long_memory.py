"""What outlives the KV cache, and a head cache that forgets what nothing looks back to."""

from __future__ import annotations

import pytest
import torch

from nextword.model.head_cache.head_cache import DynamicHeadCache
from nextword.model.head_cache.kv_cache import LongMemory


def passed(
    head_cache: DynamicHeadCache, ids: list[int], state: torch.Tensor | None = None, looks_back: int | None = None
) -> tuple[list[int], int]:
    tokens = torch.tensor([ids])
    streams = {"keys": tokens[..., None].float() if state is None else state.expand(1, len(ids), 1)}
    first = head_cache.remember(tokens, torch.ones_like(tokens, dtype=torch.bool), streams, looks_back)
    memory = head_cache.recall()
    assert memory.streams["keys"].shape[1] == memory.ids.shape[1]
    return memory.ids[0].tolist(), int(first)


@torch.no_grad()
def test_so_much_is_kept_as_is_looked_back_over_and_no_more() -> None:
    head_cache, length = DynamicHeadCache(), 0
    for count in (1, 50, 300, 1, 1, 200, *[1] * 400, 70):
        kept, first = passed(head_cache, list(range(length, length + count)), looks_back=100)
        assert kept == list(range(length + count - len(kept), length + count))
        assert kept[first] == length
        assert first >= min(length, 100)
        length += count
        assert head_cache.length == length
        assert len(kept) <= max(100 + max(64, count), 50)
    head_cache.crop(-64)
    passed(head_cache, [0], looks_back=100)
    head_cache.crop(-65)
    with pytest.raises(ValueError, match="cropped by more than 64"):
        passed(head_cache, [0], looks_back=100)
    head_cache.reset()
    assert passed(head_cache, [3], looks_back=100) == ([3], 0)


@torch.no_grad()
def test_sequences_of_a_history_that_forgets_are_cut_by_their_own_numbers() -> None:
    head_cache = DynamicHeadCache()
    ids = torch.arange(200).repeat(2, 1)
    valid = torch.ones_like(ids, dtype=torch.bool)
    for rows in ids.split(20, 1):
        head_cache.remember(rows, valid[:, :20], {}, looks_back=10)
    head_cache.align(torch.tensor([0, 3]), 200)
    memory = head_cache.recall()
    assert head_cache.length == 200
    assert memory.ids[0, -10:].tolist() == list(range(190, 200))
    assert memory.ids[1, -10:].tolist() == list(range(187, 197))
    assert memory.valid[:, -60:].all()


@torch.no_grad()
def test_what_came_before_the_cache_is_read_and_not_counted() -> None:
    memory = LongMemory()
    passed(memory, [1, 2, 3], looks_back=100)
    memory.before_cache()
    assert memory.length == 0
    assert passed(memory, [4, 5], looks_back=100) == ([1, 2, 3, 4, 5], 3)
    assert memory.length == 2
    memory.crop(-2)
    assert passed(memory, [6], looks_back=100) == ([1, 2, 3, 6], 3)


def test_documents_are_numbered_from_pass_to_pass() -> None:
    memory = LongMemory(start=0)
    for ids, numbers in (([0, 5, 6], [1, 1, 1]), ([7, 0, 8], [1, 2, 2]), ([0], [3])):
        passed(memory, ids)
        document = memory.recall().document
        assert document is not None
        assert document[0, -len(ids) :].tolist() == numbers


def test_gradients_go_back_to_the_same_pass_only() -> None:
    memory, states = LongMemory(), [torch.ones((), requires_grad=True) for _ in range(3)]
    for state in states:
        passed(memory, [1, 2], state)
    memory.recall().streams["keys"].sum().backward()
    assert [None if state.grad is None else float(state.grad) for state in states] == [None, None, 2.0]
