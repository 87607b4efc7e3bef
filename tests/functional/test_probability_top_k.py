"""The largest numbers of each row, block by block, against a sort."""

from __future__ import annotations

import pytest
import torch

from nextword.functional.probability import top_k


@pytest.mark.parametrize(
    ("columns", "k"), [(5, 5), (64, 1), (1000, 3), (1000, 15), (1000, 16), (64 * 20, 19), (5000, 0)]
)
def test_largest_of_each_row(columns: int, k: int) -> None:
    scores = torch.randn(7, columns, generator=torch.Generator().manual_seed(0))
    scores[1] = -torch.inf
    scores[2, : columns // 2] = -torch.inf
    scores[3] = torch.arange(columns).float()  # all in the last blocks
    values, ids = top_k(scores, k)
    assert torch.equal(values, scores.sort(-1, descending=True).values[:, :k])
    assert torch.equal(values, scores.gather(1, ids))
    assert all(len(set(row)) == k for row in ids.tolist())


def test_rows_that_are_no_block_of_memory() -> None:
    scores = torch.randn(1000, 6, generator=torch.Generator().manual_seed(0)).T
    assert torch.equal(top_k(scores, 3)[1], scores.topk(3).indices)
    values, ids = top_k(scores[:0], 3)
    assert values.shape == ids.shape == (0, 3)


def test_gradient_reaches_the_chosen_numbers() -> None:
    scores = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0), requires_grad=True)
    values, ids = top_k(scores, 4)
    values.sum().backward()
    assert torch.equal(scores.grad, torch.zeros(2, 1000).scatter(1, ids, 1.0))
