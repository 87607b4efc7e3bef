"""Sums whose gradient is made chunk by chunk, against the sum over all rows at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nextword.functional.chunked_loss import sum_with_gradient
from nextword.functional.products import dense_products
from nextword.functional.weight_gradient import FusedBackward

N, D, V = 7, 3, 5
CHUNKS = [slice(0, 3), slice(3, 6), slice(6, 7)]


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


class Case:
    """A sum over rows of products with a weight and of a shift that all rows share."""

    def __init__(self) -> None:
        self.states, self.weight, self.shift = randn(N, D, seed=0), randn(V, D, seed=1), randn(V, seed=2)
        self.counted = torch.arange(N) % 2  # rows without gradient are cut as well
        self.leaves = [self.states, self.weight, self.shift]
        self.calls = 0

    def compute(self, rows: slice, leaves: list[Tensor], fused_backward: FusedBackward | None) -> Tensor:
        self.calls += 1
        states, counted = leaves
        scores = dense_products(self.weight, None, [states], fused_backward)[0] + self.shift.exp()
        return (scores.sin() * (counted + 1)[:, None]).sum()

    def expected(self) -> Tensor:
        return (((self.states * 2) @ self.weight.T + self.shift.exp()).sin() * (self.counted + 1)[:, None]).sum()

    def sum(self, chunks: list[slice] = CHUNKS) -> Tensor:
        return sum_with_gradient(self.compute, chunks, [self.states * 2, self.counted], [self.weight, self.shift])


@pytest.mark.parametrize("chunks", [CHUNKS, [slice(0, N)]], ids=["chunks", "one chunk"])
def test_value_and_gradients(chunks: list[slice]) -> None:
    case = Case()
    total = case.sum(chunks)
    torch.testing.assert_close(total, case.expected(), rtol=1e-14, atol=1e-14)
    found = torch.autograd.grad(total * 3, case.leaves)
    for own, reference in zip(found, torch.autograd.grad(case.expected() * 3, case.leaves), strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-13, atol=1e-13)
    assert case.calls == len(chunks)  # nothing is computed twice


@pytest.mark.parametrize("chunks", [CHUNKS, [slice(0, N)]], ids=["chunks", "one chunk"])
@pytest.mark.parametrize("expanded", [True, False])
def test_gradients_that_autograd_shares_or_expands(chunks: list[slice], expanded: bool) -> None:
    """Both terms of a sum get one and the same tensor, and a sum's terms one number seen many times."""
    states, first, second = randn(N, V, seed=0), randn(V, seed=1), randn(V, seed=2)
    scale = randn(V, seed=3).detach()

    def once() -> Tensor:
        both = first + second
        return both.sum() if expanded else (both * scale).sum()

    leaves = [states, first, second]
    total = sum_with_gradient(lambda _, given, __: once() + given[0].sin().sum(), chunks, [states], [first, second])
    found = torch.autograd.grad(total * 3, leaves)
    whole = len(chunks) * once() + states.sin().sum()
    for own, reference in zip(found, torch.autograd.grad(whole * 3, leaves), strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-13, atol=1e-13)


def test_a_second_pass_through_the_same_graph() -> None:
    case = Case()
    total = case.sum()
    first = [own.clone() for own in torch.autograd.grad(total, case.leaves, retain_graph=True)]
    for own, reference in zip(torch.autograd.grad(total * -2, case.leaves), first, strict=True):
        torch.testing.assert_close(own, reference * -2, rtol=1e-14, atol=1e-14)


def test_without_gradients() -> None:
    case = Case()
    with torch.no_grad():
        torch.testing.assert_close(case.sum(), case.expected())
    for leaf in case.leaves:
        leaf.requires_grad_(False)
    assert not case.sum().requires_grad


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_gets_no_gradient(frozen: int) -> None:
    case = Case()
    case.leaves[frozen].requires_grad_(False)
    case.sum().backward()
    for number, leaf in enumerate(case.leaves):
        assert (leaf.grad is None) == (number == frozen)


def test_float16_is_computed_again_with_its_loss_scale() -> None:
    """A gradient of 1e-9 is zero in float16 unless the loss is scaled before it is made."""
    weight = torch.full((V, D), 1e-3, dtype=torch.float16, requires_grad=True)
    states = torch.full((N, D), 1e-3, dtype=torch.float16, requires_grad=True)

    def compute(rows: slice, leaves: list[Tensor], fused_backward: FusedBackward | None) -> Tensor:
        return dense_products(weight, None, leaves, fused_backward)[0].float().sum() * 1e-6

    total = sum_with_gradient(compute, CHUNKS, [states], [weight])
    (total * 2.0**16).backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad.float(), torch.full((V, D), N * 1e-9 * 2**16), rtol=1e-2, atol=0)


def test_a_second_pass_draws_the_same_random_numbers() -> None:
    """As dropout of an output layer with LoRA does."""
    weight, states = randn(V, D, seed=1), randn(N, D, seed=0)

    def compute(rows: slice, leaves: list[Tensor], fused_backward: FusedBackward | None) -> Tensor:
        return torch.nn.functional.dropout(dense_products(weight, None, leaves, fused_backward)[0], 0.5).sum()

    torch.manual_seed(0)
    total = sum_with_gradient(compute, CHUNKS, [states], [weight])
    after = torch.rand(())
    first = torch.autograd.grad(total, weight, retain_graph=True)[0].clone()
    torch.testing.assert_close(torch.autograd.grad(total, weight)[0], first, rtol=1e-14, atol=1e-14)
    torch.manual_seed(0)
    sum_with_gradient(compute, CHUNKS, [states], [weight])
    assert torch.rand(()) == after  # and nobody else's numbers change


def test_sums_within_sums_and_in_two_threads() -> None:
    """What a pass collects is its own: no other pass that is under way sees it."""
    case = Case()
    expected = torch.autograd.grad(case.expected(), case.leaves)
    half_way = Barrier(2, timeout=30)

    def nested(rows: slice, leaves: list[Tensor], fused_backward: FusedBackward | None) -> Tensor:
        half_way.wait()
        Case().sum().backward()  # a loss of its own, on weights of its own
        torch.autograd.grad(case.sum(), case.leaves)  # and one on the same weights, in a pass of its own
        half_way.wait()
        return case.compute(rows, leaves, fused_backward)

    def gradients(_: int) -> list[Tensor]:
        total = sum_with_gradient(nested, CHUNKS, [case.states * 2, case.counted], [case.weight, case.shift])
        return list(torch.autograd.grad(total, case.leaves))

    with ThreadPoolExecutor(2) as threads:
        for found in threads.map(gradients, range(2)):
            for own, reference in zip(found, expected, strict=True):
                torch.testing.assert_close(own, reference, rtol=1e-13, atol=1e-13)


def test_a_checkpointed_model_runs_twice_and_not_once_a_chunk() -> None:
    case, runs = Case(), []

    def model(states: Tensor) -> Tensor:
        runs.append(1)
        case.states = (states * 1.5).tanh()
        return case.sum()

    states = randn(N, D, seed=5)
    checkpoint(model, states, use_reentrant=False).backward()
    assert len(runs) == 2
