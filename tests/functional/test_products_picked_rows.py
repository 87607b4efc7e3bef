"""Products with picked rows, against picking them all at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nextword.functional import products as picked
from nextword.functional.products import dense_products, picked_product
from nextword.functional.weight_gradient import FusedBackward

V, D, B, Q, K = 11, 4, 5, 2, 6


@pytest.fixture
def weight() -> Tensor:
    return torch.randn(V, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()


@pytest.fixture
def states() -> Tensor:
    return torch.randn(B, Q, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()


@pytest.fixture
def ids() -> Tensor:
    return torch.randint(0, V, (B, K), generator=torch.Generator().manual_seed(2))  # tokens repeat, rows too


@pytest.mark.parametrize("picked_bytes", [1, 2 * K * D * 8, 2**20], ids=["one row", "two rows", "all rows at a time"])
def test_values_and_gradients(
    weight: Tensor, states: Tensor, ids: Tensor, picked_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(picked.PICKED_BYTES, "cpu", picked_bytes)
    expected = states @ F.embedding(ids, weight).mT
    made = picked_product(weight, states, ids)
    torch.testing.assert_close(made, expected, rtol=1e-14, atol=1e-14)
    found = torch.autograd.grad(made.sin().sum(), [weight, states])
    wanted = torch.autograd.grad(expected.sin().sum(), [weight, states])
    assert found[0].is_sparse
    torch.testing.assert_close(found[0].to_dense(), wanted[0], rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-14, atol=1e-14)
    with torch.no_grad():
        torch.testing.assert_close(picked_product(weight, states, ids), expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dense_first", [True, False])
def test_next_to_a_whole_product_the_gradient_is_dense(
    weight: Tensor, states: Tensor, ids: Tensor, dense_first: bool
) -> None:
    terms = [
        lambda: F.linear(states[:, 0], weight).sin().sum(),
        lambda: picked_product(weight, states, ids).sin().sum(),
    ]
    sum(term() for term in (terms if dense_first else terms[::-1])).backward()
    assert weight.grad is not None
    assert not weight.grad.is_sparse
    total = F.linear(states[:, 0], weight).sin().sum() + (states @ F.embedding(ids, weight).mT).sin().sum()
    torch.testing.assert_close(weight.grad, torch.autograd.grad(total, weight)[0], rtol=1e-13, atol=1e-13)


def test_float16_next_to_a_whole_product(weight: Tensor, states: Tensor, ids: Tensor) -> None:
    """Where torch adds no sparse gradients. Few rows, so often that a sum in half precision would lose digits."""
    ids, half = ids.clamp_max(1), torch.float16

    def gradient(precision: torch.dtype) -> Tensor:
        own, given = (tensor.detach().to(half).to(precision).requires_grad_() for tensor in (weight, states))
        terms = [F.linear(given[:, 0], own), picked_product(own, given, ids), picked_product(own, given, ids)]
        return torch.autograd.grad(sum(term.sum() for term in terms), own)[0].to_dense().double()

    expected = gradient(torch.float64)
    assert (gradient(half) - expected).abs().max() <= torch.finfo(half).eps * expected.abs().max()


@pytest.mark.parametrize("dense_first", [True, False])
def test_single_pass(weight: Tensor, states: Tensor, ids: Tensor, dense_first: bool) -> None:
    fused_backward = FusedBackward([weight])
    terms = [
        dense_products(weight, None, [states[:, 0]], fused_backward)[0].sin().sum(),
        picked_product(weight, states, ids, fused_backward).sin().sum(),
    ]
    for term in terms if dense_first else terms[::-1]:
        assert torch.autograd.grad(term, weight, allow_unused=True, retain_graph=True) == (None,)
    total = F.linear(states[:, 0], weight).sin().sum() + (states @ F.embedding(ids, weight).mT).sin().sum()
    expected = torch.autograd.grad(total, weight)[0]
    torch.testing.assert_close(fused_backward.collectors[0].result(), expected, rtol=1e-13, atol=1e-13)


def test_nothing_is_picked_for_nothing(weight: Tensor, states: Tensor, ids: Tensor) -> None:
    assert picked_product(weight, states, ids[:, :0]).shape == (B, Q, 0)
    empty = picked_product(weight, states[:0], ids[:0])
    assert empty.shape == (0, Q, K)
    empty.sum().backward()
    assert states.grad is not None
    assert not states.grad.any()
