"""Exact search against one product of all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from nextword.retrieval import ExactSearch


class Blocks:
    """Keys in blocks of three, however many are asked for at once."""

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def blocks(self, size: int) -> Iterator[tuple[int, Tensor]]:
        for begin in range(0, len(self.keys), 3):
            yield begin, self.keys[begin : begin + 3]


@pytest.mark.parametrize("euclidean", [True, False])
def test_finds_the_nearest_in_any_block(euclidean: bool) -> None:
    torch.manual_seed(0)
    keys, queries = torch.randn(20, 4), torch.randn(7, 4)
    near = -torch.cdist(queries, keys) if euclidean else queries @ keys.T
    assert ExactSearch(Blocks(keys), euclidean).nearest(queries, 5).equal(near.topk(5).indices)


def test_fewer_keys_than_asked_for() -> None:
    found = ExactSearch(Blocks(torch.randn(2, 4))).nearest(torch.randn(3, 4), 5)
    assert (found[:, 2:] == -1).all()
    assert found[:, :2].sort(1).values.equal(torch.tensor([[0, 1]]).expand(3, 2))
