"""What a collector adds up, and which weight it is for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nextword.functional.products import dense_products
from nextword.functional.weight_gradient import Factors, FusedBackward, GradientCollector

V, D, N = 9, 4, 6


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_each_weight_has_a_collector_of_its_own() -> None:
    """Two that are equal, and one that the pass does not collect: its gradient is autograd's."""
    first, second, other = (randn(V, D, seed=0).requires_grad_() for _ in range(3))
    states = [randn(N, D, seed=seed) for seed in (1, 2, 3)]
    fused_backward = FusedBackward([first, second])
    products = [
        dense_products(w, None, [s], fused_backward)[0] for w, s in zip((first, second, other), states, strict=True)
    ]
    gradients = torch.autograd.grad(sum(own.sum() for own in products), [first, second, other], allow_unused=True)
    assert gradients[:2] == (None, None)
    expected = [own.sum(0).expand(V, D) for own in states]
    for collector, reference in zip(fused_backward.collectors, expected, strict=False):
        torch.testing.assert_close(collector.result(), reference, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(gradients[2], expected[2], rtol=1e-14, atol=1e-14)


def test_nothing_added_is_no_gradient() -> None:
    collector = GradientCollector(randn(V, D, seed=0))
    collector.compact(1.0)
    assert collector.result() is None


@pytest.mark.parametrize("order", [1, -1])
def test_gradients_and_factors_add_up_in_any_order(order: int) -> None:
    collector = GradientCollector(randn(V, D, seed=0))
    ready, left, right = randn(V, D, seed=1), randn(V, N, seed=2), randn(N, D, seed=3)
    rows = torch.tensor([7, 0, 3])
    parts = [
        lambda: collector.add(ready, shared=True),
        lambda: collector.add_factors(Factors(left, right)),
        lambda: collector.add_factors(Factors(left[:3], right, [(slice(0, 2), rows[:2]), (slice(2, 3), rows[2:])])),
        lambda: collector.compact(0.5),
    ]
    before = ready.clone()
    for add in parts[::order]:
        add()
    expected = (before + left @ right).index_add(0, rows, left[:3] @ right)
    torch.testing.assert_close(collector.result(), expected, rtol=1e-13, atol=1e-13)
    assert torch.equal(ready, before)  # somebody else reads it


@pytest.mark.parametrize(("fraction", "multiplied"), [(0.4, True), (0.5, False), (1.0, False)])
def test_factors_wait_while_all_of_them_will_be_smaller_than_the_gradient(fraction: float, multiplied: bool) -> None:
    weight = torch.zeros(20, 20)
    collector = GradientCollector(weight)
    collector.add_factors(Factors(torch.ones(20, 5), torch.ones(5, 20)))  # 200 of 400 numbers
    collector.compact(fraction)
    assert (collector._total is not None) == multiplied
    assert torch.equal(collector.result(), torch.full((20, 20), 5.0))


def test_a_sum_of_half_precision_gradients_is_kept_in_single() -> None:
    one, small = torch.ones(1, 1, dtype=torch.bfloat16), torch.full((1, 1), 2.0**-10, dtype=torch.bfloat16)
    added = GradientCollector(one)
    for left in (one, small, small):
        added.add_factors(Factors(left, one))
    total = added.result()
    assert total is not None
    assert total.dtype == torch.float32
    assert total.item() == 1 + 2.0**-9  # each step is below what bfloat16 resolves next to 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sparse_factors_in_half_precision_are_multiplied_in_single(dtype: torch.dtype) -> None:
    """CUDA has no other product of these; nothing of the sum is rounded to half precision."""
    dense, right = randn(V, N, seed=1).to(dtype), randn(N, D, seed=2).to(dtype)
    collector = GradientCollector(randn(V, D, seed=0).to(dtype))
    collector.add_factors(Factors(dense.to_sparse(), right))
    collector.add_factors(Factors(dense.to_sparse(), right))
    total = collector.result()
    assert total is not None
    assert total.dtype is torch.float32
    torch.testing.assert_close(total.double(), 2 * dense.double() @ right.double(), rtol=1e-6, atol=1e-6)
