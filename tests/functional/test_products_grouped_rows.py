"""The grouped product: the same values and gradients as whole products, and nothing as large as them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nextword.functional import products as picked
from nextword.functional.products import grouped_product

V, D = 40, 6


def groups(dtype: torch.dtype = torch.float64) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(V, D, generator=generator, dtype=dtype).requires_grad_()
    states = [torch.randn(n, D, generator=generator, dtype=dtype).requires_grad_() for n in (3, 1, 5)]
    ids = list(torch.randperm(V, generator=generator)[:31].split([1, 10, 20]))
    return weight, states, ids


@pytest.mark.slow
@pytest.mark.parametrize("picked_bytes", [1, 8 * 6 * 7, 2**20], ids=["one row at a time", "seven rows", "all at once"])
def test_values_and_gradients_are_those_of_whole_products(monkeypatch: pytest.MonkeyPatch, picked_bytes: int) -> None:
    monkeypatch.setitem(picked.PICKED_BYTES, "cpu", picked_bytes)
    weight, states, ids = groups()
    assert torch.autograd.gradcheck(lambda w, *s: grouped_product(w, s, ids), (weight, *states))
    for scores, own, rows in zip(grouped_product(weight, states, ids), states, ids, strict=True):
        torch.testing.assert_close(scores, own @ weight[rows].T)


def test_what_needs_no_gradient_gets_none() -> None:
    weight, states, ids = groups()
    frozen = weight.detach()
    sum(scores.sum() for scores in grouped_product(frozen, states, ids)).backward()
    assert frozen.grad is None
    assert all(own.grad is not None for own in states)


def test_no_groups() -> None:
    assert grouped_product(torch.ones(2, 2), [], []) == ()


def test_autocast_rounds_as_an_ordinary_product_does() -> None:
    weight, states, ids = groups(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = grouped_product(weight, states, ids)
        expected = [own @ weight[rows].T for own, rows in zip(states, ids, strict=True)]
    for scores, wanted in zip(found, expected, strict=True):
        assert scores.dtype == torch.bfloat16
        torch.testing.assert_close(scores, wanted)
    ours = torch.autograd.grad(sum(s.float().sum() for s in found), [weight, *states])
    theirs = torch.autograd.grad(sum(s.float().sum() for s in expected), [weight, *states])
    for gradient, wanted in zip(ours, theirs, strict=True):
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, wanted)
