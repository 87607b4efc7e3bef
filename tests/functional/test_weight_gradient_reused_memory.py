"""Dense scores of a chunk are written into the memory of the chunk before, unless something still reads that."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nextword.functional.products import dense_products
from nextword.functional.weight_gradient import FusedBackward, row_width


def scores_of(fused_backward: FusedBackward, weight: torch.Tensor, rows: int) -> torch.Tensor:
    states = torch.randn(rows, weight.shape[1], requires_grad=True)
    return dense_products(weight, None, [states], fused_backward)[0]


def test_the_next_chunk_takes_the_same_memory() -> None:
    weight = torch.randn(20, 3)
    fused_backward = FusedBackward()
    first = scores_of(fused_backward, weight, 5)
    fused_backward.next_graph()
    assert scores_of(fused_backward, weight, 4).data_ptr() == first.data_ptr()


def test_two_products_of_one_chunk_have_memory_of_their_own() -> None:
    weight = torch.randn(20, 3)
    fused_backward = FusedBackward()
    first, second = scores_of(fused_backward, weight, 5), scores_of(fused_backward, weight, 5)
    assert first.data_ptr() != second.data_ptr()
    fused_backward.next_graph()
    again = {scores_of(fused_backward, weight, 5).data_ptr() for _ in range(2)}
    assert again == {first.data_ptr(), second.data_ptr()}


def test_memory_that_a_collector_holds_is_not_written_again() -> None:
    weight = torch.randn(20, 3, requires_grad=True)
    fused_backward = FusedBackward([weight])
    first = scores_of(fused_backward, weight, 2)
    first.backward(first.detach())  # a gradient that was written over the scores
    expected = first.detach().clone()
    fused_backward.next_graph()
    assert scores_of(fused_backward, weight, 2).data_ptr() != first.data_ptr()
    assert torch.equal(first, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", [7, 1024, 20_000])
def test_products_in_rows_with_gaps(columns: int, bias: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, shift = (torch.randn(columns, *rest, generator=generator, dtype=dtype) for rest in ((5,), ()))
    parts = [torch.randn(rows, 5, generator=generator, dtype=dtype) for rows in (3, 0, 4)]
    inputs = [tensor.requires_grad_() for tensor in (weight, shift, *parts)]
    gradients = [torch.randn(len(part), columns, generator=generator, dtype=dtype) for part in parts]
    fused_backward = FusedBackward()
    found = dense_products(weight, shift if bias else None, parts, fused_backward)
    assert found[0].stride(0) == row_width(columns, weight.element_size())
    expected = [torch.nn.functional.linear(part, weight, shift if bias else None) for part in parts]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    used = inputs if bias else [weight, *parts]
    ours = torch.autograd.grad(found, used, gradients)
    for one, other in zip(ours, torch.autograd.grad(expected, used, gradients), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4 if dtype is torch.float32 else 1e-10, atol=1e-4)


class Multiplied(TorchDispatchMode):
    """The shape of every product."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if "mm" in func.overloadpacket.__name__:
            self.shapes.append(tuple(made.shape))
        return made


@pytest.mark.parametrize("trained", [False, True])
def test_the_gradient_of_a_frozen_weight_is_not_multiplied(trained: bool) -> None:
    weight = torch.randn(20, 3).requires_grad_(trained)
    fused_backward = FusedBackward([weight] if trained else [])
    with Multiplied() as multiplied:
        scores_of(fused_backward, weight, 5).sum().backward()
        for collector in fused_backward.collectors:
            collector.compact(1.0)
            collector.result()
    assert multiplied.shapes == [(5, 20), (5, 3), *([(20, 3)] if trained else [])]
