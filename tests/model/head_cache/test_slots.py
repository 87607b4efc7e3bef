"""Memory at slots against plain concatenation: requests that join, leave, share beginnings, fork and come back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from nextword.model.head_cache.slots import SlotMapping, SlotMemory

BLOCK, BLOCKS, BEFORE = 4, 40, 2


@dataclass
class Request:
    """What plain concatenation holds of a request, and the blocks that it has in the engine."""

    ids: Tensor
    keys: Tensor
    blocks: list[int]

    @property
    def length(self) -> int:
        return len(self.ids)


class Engine:
    """Packs new places of requests, in blocks handed out in random order; every answer of the memory is compared."""

    def __init__(self, listed: bool) -> None:
        self.memory, self.listed = SlotMemory(BLOCKS * BLOCK), listed
        self.generator = torch.Generator().manual_seed(0)
        self.free = torch.randperm(BLOCKS, generator=self.generator).tolist()

    def number(self, below: int) -> int:
        return int(torch.randint(below, (), generator=self.generator))

    def joins(self) -> Request:
        return Request(torch.zeros(0, dtype=torch.long), torch.zeros(0, 3), [])

    def slots(self, requests: list[Request], new: list[int]) -> SlotMapping:
        """Where requests stand that have their new places already."""
        starts = torch.tensor([0, *new]).cumsum(0).int()
        lengths = torch.tensor([request.length for request in requests]).int()
        count = int(starts[-1])
        if self.listed:
            held = [torch.tensor(r.blocks)[:, None] * BLOCK + torch.arange(BLOCK) for r in requests]
            of_each = [slots.flatten()[: r.length] for slots, r in zip(held, requests, strict=True)]
            return SlotMapping.of_list(starts, lengths, torch.cat(of_each), count)
        table = torch.full((len(requests), max(len(r.blocks) for r in requests) + 1), 7, dtype=torch.int32)
        for row, request in zip(table, requests, strict=True):
            row[: len(request.blocks)] = torch.tensor(request.blocks)
        return SlotMapping.of_blocks(starts, lengths, table, BLOCK, count)

    def step(self, requests: list[Request], new: list[int]) -> None:
        """One pass: every request reads some new places."""
        before = [request.length for request in requests]
        for request, positions in zip(requests, new, strict=True):
            request.ids = torch.cat([request.ids, torch.randint(-1, 9, (positions,), generator=self.generator)])
            request.keys = torch.cat([request.keys, torch.randn(positions, 3, generator=self.generator)])
            while len(request.blocks) * BLOCK < request.length:
                request.blocks.append(self.free.pop())
        slots = self.slots(requests, new)
        paged = self.memory.in_pass(slots)
        keys = torch.cat([request.keys[past:] for request, past in zip(requests, before, strict=True)])[:, None]
        ids = torch.cat([request.ids[past:] for request, past in zip(requests, before, strict=True)])[:, None]

        window = paged.preceded("window", keys, BEFORE)
        position = paged.remember(ids, torch.ones_like(ids, dtype=torch.bool), {"keys": keys})
        row = 0
        for request, past in zip(requests, before, strict=True):
            padded = torch.cat([torch.zeros(BEFORE, 3), request.keys])
            for at in range(past, request.length):
                assert torch.equal(window[row], padded[at : at + BEFORE + 1])
                assert position[row] == at
                row += 1
        self.compare(paged.recall(), requests)
        some = torch.tensor([len(requests) - 1, 0, 0])
        self.compare(paged.recall_of(some), [requests[i] for i in some.tolist()])

    def compare(self, memory: object, requests: list[Request]) -> None:
        for row, request in enumerate(requests):
            end = request.length
            assert torch.equal(memory.ids[row, :end], request.ids)
            assert torch.equal(memory.valid[row, :end], request.ids >= 0)
            assert torch.equal(memory.streams["keys"][row, :end], request.keys)
            assert torch.equal(memory.keys("keys")[row : row + 1, :end].read()[0], request.keys)
            assert not memory.valid[row, end:].any()

    def leaves(self, request: Request, shared: set[int]) -> None:
        self.free += [block for block in request.blocks if block not in shared]


@pytest.mark.parametrize("listed", [False, True], ids=["blocks", "list"])
@torch.no_grad()
def test_requests_join_leave_and_come_back(listed: bool) -> None:
    engine = Engine(listed)
    requests = [engine.joins(), engine.joins()]
    engine.step(requests, [6, 1])
    for turn in range(60):
        if turn % 5 == 0 and len(requests) < 5:
            requests.append(engine.joins())
        if turn % 7 == 0 or len(engine.free) < 10:
            engine.leaves(requests.pop(engine.number(len(requests))), set())
            requests = requests or [engine.joins()]
        engine.step(requests, [1 + engine.number(5) for _ in requests])


@pytest.mark.parametrize("listed", [False, True], ids=["blocks", "list"])
@torch.no_grad()
def test_equal_beginnings_share_blocks(listed: bool) -> None:
    engine = Engine(listed)
    first = engine.joins()
    engine.step([first], [11])
    second = Request(first.ids[: 2 * BLOCK], first.keys[: 2 * BLOCK], first.blocks[:2])
    engine.step([second, first], [3, 1])
    engine.step([second, first], [2, 4])


@pytest.mark.parametrize("listed", [False, True], ids=["blocks", "list"])
@torch.no_grad()
def test_copied_blocks_hold_what_was_copied(listed: bool) -> None:
    engine = Engine(listed)
    first = engine.joins()
    engine.step([first], [10])
    twin = Request(first.ids, first.keys, [*first.blocks[:2], engine.free.pop()])
    within = torch.arange(BLOCK)
    engine.memory.copy(first.blocks[2] * BLOCK + within, twin.blocks[2] * BLOCK + within)
    engine.step([first, twin], [1, 2])


@torch.no_grad()
def test_what_a_slot_costs() -> None:
    engine = Engine(listed=False)
    engine.step([engine.joins()], [2])
    # an id of 8 bytes, its validity, three numbers of 4 bytes as a stream and as a window
    assert engine.memory.bytes_per_slot == 8 + 1 + 3 * 4 + 3 * 4
