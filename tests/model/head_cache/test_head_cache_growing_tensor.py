"""A growing tensor against plain concatenation: whatever happens to it, and what was handed out before."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from nextword.model.head_cache.head_cache import GrowingTensor


def new(positions: int, rows: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(rows, positions, 3, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def test_any_order_of_changes_is_as_with_concatenation() -> None:
    """200 random changes; nothing that was handed out on the way changes its value afterwards."""
    generator = torch.Generator().manual_seed(0)
    expected = new(5)
    stream, handed = GrowingTensor(expected), []
    for step in range(200):
        choice = int(torch.randint(8, (), generator=generator))
        if choice == 0 and expected.shape[1] > 4:
            stream.crop(-3)
            expected = expected[:, :-3]
        elif choice == 1:
            index = torch.randint(len(expected), (len(expected),), generator=generator)
            stream.select(index)
            expected = expected[index]
        elif choice == 2 and len(expected) < 8:
            stream.repeat(2)
            expected = expected.repeat_interleave(2, 0)
        else:
            more = new(1 + step % 3, len(expected), step)
            stream.append(more)
            expected = torch.cat([expected, more], 1)
        handed.append((stream.positions, expected))
    assert expected.shape[1] > 100
    for given, value in handed:
        assert torch.equal(given, value)


@torch.no_grad()
def test_a_window_keeps_the_last_places() -> None:
    stream, everything = GrowingTensor(new(2)), new(2)
    for step in range(300):
        more = new(1 + step % 2, seed=step)
        everything = torch.cat([everything, more], 1)
        stream.append(more, at_most=7)
        assert torch.equal(stream.positions, everything[:, -7:])
    assert stream._block.shape[1] < 100
    stream.crop(-3)
    stream.append(more, at_most=7)
    assert torch.equal(stream.positions, torch.cat([everything[:, -7:-3], more], 1))


@torch.no_grad()
def test_earlier_places_are_rarely_copied() -> None:
    stream = GrowingTensor(new(100))
    blocks = set()
    for step in range(1_000):
        stream.append(new(1, seed=step))
        blocks.add(stream.positions.data_ptr())
    assert len(blocks) < 14  # concatenation would make 1,000


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda stream: pickle.loads(pickle.dumps(stream))])
@torch.no_grad()
def test_copies_part(copied: Any) -> None:
    stream = GrowingTensor(new(4))
    stream.append(new(1))
    twin = copied(stream)
    stream.append(new(1, seed=1))
    twin.append(new(1, seed=2))
    assert torch.equal(stream.positions[:, :5], twin.positions[:, :5])
    assert torch.equal(stream.positions[:, 5:], new(1, seed=1))
    assert torch.equal(twin.positions[:, 5:], new(1, seed=2))


@torch.no_grad()
def test_a_file_holds_no_room() -> None:
    stream = GrowingTensor(new(1))
    stream.append(new(1))
    assert stream._block.shape[1] > 60
    assert len(pickle.dumps(stream)) < len(pickle.dumps(GrowingTensor(new(60))))


def test_gradients_go_through() -> None:
    first, second = new(2).requires_grad_(), new(1, seed=1).requires_grad_()
    stream = GrowingTensor(first)
    stream.append(second)
    kept = stream.positions.square()
    with torch.no_grad():
        stream.append(new(3))  # must not write into what the backward pass reads
        stream.append(new(3))
    kept.sum().backward()
    assert torch.equal(first.grad, 2 * first)
    assert torch.equal(second.grad, 2 * second)


@torch.no_grad()
def test_another_number_of_rows_is_refused() -> None:
    stream = GrowingTensor(new(4))
    stream.append(new(1))
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        stream.append(new(1, rows=1))


def test_inference_mode_and_no_grad_take_turns() -> None:
    stream, expected = GrowingTensor(new(3)), new(3)
    for step in range(4):
        more = new(1, seed=step)
        with torch.inference_mode() if step % 2 else torch.no_grad():
            stream.append(more)
        expected = torch.cat([expected, more], 1)
    assert torch.equal(stream.positions, expected)
