"""Products that add their weight's gradient up, against autograd's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nextword.functional.products import _joined, dense_products
from nextword.functional.weight_gradient import FusedBackward

V, D = 11, 4


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def leaves() -> list[Tensor]:
    made = [randn(V, D, seed=0), randn(V, seed=1), randn(3, D, seed=2), randn(5, D, seed=3)]
    return [leaf.requires_grad_() for leaf in made]


def loss(scores: list[Tensor]) -> Tensor:
    return sum((own.sin() * (k + 1)).sum() for k, own in enumerate(scores))  # type: ignore[return-value]


def test_values_and_gradients(leaves: list[Tensor]) -> None:
    weight, bias, *states = leaves
    expected = [F.linear(own, weight, bias) for own in states]
    made = dense_products(weight, bias, states)
    for own, reference in zip(made, expected, strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-14, atol=1e-14)
    for own, reference in zip(
        torch.autograd.grad(loss(made), leaves), torch.autograd.grad(loss(expected), leaves), strict=True
    ):
        torch.testing.assert_close(own, reference, rtol=1e-14, atol=1e-14)


def test_without_gradients_it_is_one_product(leaves: list[Tensor]) -> None:
    weight, bias, *states = leaves
    with torch.no_grad():
        made = dense_products(weight, bias, states)
        for own, states_of_it in zip(made, states, strict=True):
            torch.testing.assert_close(own, F.linear(states_of_it, weight, bias))
    assert made[0].untyped_storage().data_ptr() == made[1].untyped_storage().data_ptr()


def test_gradients_that_lie_side_by_side_are_not_copied(leaves: list[Tensor]) -> None:
    block = randn(8, V, seed=4)
    for parts, copied in ((block.split([3, 5]), False), (block.split([5, 3])[::-1], True)):
        joined = _joined(parts)
        torch.testing.assert_close(joined, torch.cat(parts), rtol=0, atol=0)
        assert (joined.data_ptr() != block.data_ptr()) == copied


def test_each_may_be_changed_in_place(leaves: list[Tensor]) -> None:
    weight, bias, *states = leaves
    first, second = dense_products(weight, bias, states)
    kept = second.detach().clone()
    first.mul_(0.0)
    torch.testing.assert_close(second, kept, rtol=0, atol=0)


@pytest.mark.parametrize("frozen", [0, 2])
def test_what_is_frozen_gets_no_gradient(leaves: list[Tensor], frozen: int) -> None:
    leaves[frozen].requires_grad_(False)
    weight, bias, *states = leaves
    loss(dense_products(weight, bias, states)).backward()
    for number, leaf in enumerate(leaves):
        assert (leaf.grad is None) == (number == frozen)


def test_a_collector_adds_up_the_gradients_of_several_products(leaves: list[Tensor]) -> None:
    weight, _, *states = leaves
    fused_backward = FusedBackward([weight])
    for own in states:
        scores = dense_products(weight, None, [own], fused_backward)
        direct, of_states = torch.autograd.grad(loss(scores), [weight, own], allow_unused=True)
        assert direct is None
        assert of_states is not None
    expected = torch.autograd.grad(sum(loss([F.linear(own, weight)]) for own in states), weight)[0]
    torch.testing.assert_close(fused_backward.collectors[0].result(), expected, rtol=1e-14, atol=1e-14)
    loss(dense_products(weight, None, states)).backward()  # without the pass it is autograd's
    assert weight.grad is not None


def test_autocast_decides_the_precision() -> None:
    weight, states = torch.randn(V, D, requires_grad=True), torch.randn(3, D, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        (scores,) = dense_products(weight, None, [states])
    assert scores.dtype == torch.bfloat16
    scores.float().sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32
