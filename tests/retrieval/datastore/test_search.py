"""Exact search against one product of all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from nextword.retrieval import ExactSearch


class Blocks:
    """Keys in blocks of a few, however many are asked for at once."""

    def __init__(self, keys: Tensor, size: int = 3) -> None:
        self.keys = keys
        self.size = size

    def __len__(self) -> int:
        return len(self.keys)

    def blocks(self, size: int) -> Iterator[tuple[int, Tensor]]:
        for begin in range(0, len(self.keys), self.size):
            yield begin, self.keys[begin : begin + self.size]


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


@pytest.mark.parametrize("count", [1, 5, 40, 200])
@pytest.mark.parametrize("euclidean", [True, False])
def test_finds_them_all_in_blocks_of_whole_groups(euclidean: bool, count: int) -> None:
    """The nearest of a query lie close together, as in a document; other blocks have none, or a few."""
    torch.manual_seed(0)
    keys, queries = torch.randn(320, 6), torch.randn(9, 6)
    keys[100:164] = queries[0] + 0.1 * torch.randn(64, 6)
    keys[300:303] = queries[1]
    near = -torch.cdist(queries.double(), keys.double()) if euclidean else queries.double() @ keys.double().T
    found = ExactSearch(Blocks(keys, 96), euclidean).nearest(queries, count)
    scores, at = near.gather(1, found), near.topk(count)
    torch.testing.assert_close(scores, at.values)
    assert all(len(set(row)) == count for row in found.tolist())
    if euclidean and count > 3:
        assert found[1, :3].sort().values.tolist() == [300, 301, 302]


def test_no_query_finds_nothing() -> None:
    assert ExactSearch(Blocks(torch.randn(64, 4), 32)).nearest(torch.empty(0, 4), 3).shape == (0, 3)
