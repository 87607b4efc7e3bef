"""Chunks that are computed again in the backward pass, against all rows at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nextword.functional.inplace import concatenate_chunks

N = 7
CHUNKS = [slice(0, 3), slice(3, 6), slice(6, 7)]


@pytest.fixture
def states() -> Tensor:
    return torch.randn(N, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize(("recompute", "calls"), [(True, 6), (False, 3)])
def test_values_and_gradients(states: Tensor, recompute: bool, calls: int) -> None:
    seen = []

    def compute(rows: slice) -> Tensor:
        seen.append(rows)
        return states[rows].sin().exp()

    values = concatenate_chunks(compute, CHUNKS, recompute=recompute)
    expected = states.sin().exp()
    assert torch.equal(values, expected)
    found = torch.autograd.grad(values.sum(), states)[0]
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), states)[0], rtol=1e-14, atol=1e-14)
    assert len(seen) == calls


def test_without_gradients_each_part_is_written_where_it_goes(states: Tensor) -> None:
    with torch.no_grad():
        found = concatenate_chunks(lambda rows: states[rows].exp(), CHUNKS, recompute=False)
        assert torch.equal(found, states.exp())
        sums = concatenate_chunks(lambda rows: states[rows].sum()[None], CHUNKS)
    torch.testing.assert_close(sums.sum(), states.detach().sum())


def test_one_chunk_is_computed_once(states: Tensor) -> None:
    seen = []

    def compute(rows: slice) -> Tensor:
        seen.append(rows)
        return states[rows].exp()

    concatenate_chunks(compute, [slice(0, N)]).sum().backward()
    assert seen == [slice(0, N)]


def test_chunks_computed_again_draw_the_same_random_numbers(states: Tensor) -> None:
    torch.manual_seed(0)
    values = concatenate_chunks(lambda rows: torch.nn.functional.dropout(states[rows] * states[rows], 0.5), CHUNKS)
    kept = values.detach() / states.detach().square()  # the mask, times 2
    found = torch.autograd.grad(values.sum(), states)[0]
    torch.testing.assert_close(found, 2 * states.detach() * kept)
