"""Memory is counted to the byte, where it can be counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peak_memory import largest_bytes, peak_bytes

MIB = 1 << 20


def floats(mebibytes: int) -> torch.Tensor:
    return torch.empty(mebibytes * MIB // 4)


def one_after_another() -> None:
    a = floats(3)
    del a
    b = floats(2)
    del b


def at_once() -> list[torch.Tensor]:
    a, b = floats(3), floats(2)
    del a
    return [b, floats(1)]


@pytest.mark.parametrize(("run", "expected"), [(one_after_another, 3), (at_once, 5), (lambda: None, 0)])
def test_peak_by_hand(run: Any, expected: int) -> None:
    assert peak_bytes(run) == expected * MIB


@pytest.mark.parametrize(("run", "expected"), [(one_after_another, 3), (at_once, 3), (lambda: None, 0)])
def test_largest_by_hand(run: Any, expected: int) -> None:
    assert largest_bytes(run) == expected * MIB


def test_what_is_held_already_does_not_count_and_giving_it_back_makes_no_room() -> None:
    held = [floats(4)]

    def run() -> None:
        held.clear()
        floats(1)

    assert peak_bytes(run) == MIB


def test_what_an_earlier_measurement_left_behind_does_not_count() -> None:
    left: list[torch.Tensor] = []
    peak_bytes(lambda: left.append(floats(2)))
    assert peak_bytes(lambda: floats(1)) == MIB
    assert len(left) == 1


def test_temporaries_inside_an_operation_count() -> None:
    x = torch.zeros(MIB // 4)
    assert peak_bytes(lambda: x.logsumexp(0)) >= MIB  # the exponentials; the result is one number


def test_backward_passes_count() -> None:
    weight = torch.randn(512, 512, requires_grad=True)
    x = torch.randn(512, 512)
    weight.grad = torch.zeros_like(weight)

    def run() -> None:
        torch.autograd.backward((x @ weight).sum())

    # the product, its gradient (a sum's is expanded, and made whole or not), and the weight's before it is added
    assert 2 * MIB <= peak_bytes(run) <= 3 * MIB + 1024


def test_the_same_every_time() -> None:
    layer = torch.nn.Linear(64, 1000)
    x, target = torch.randn(32, 64), torch.zeros(32, dtype=torch.long)

    def run() -> None:
        layer.zero_grad(set_to_none=False)
        torch.autograd.backward(torch.nn.functional.cross_entropy(layer(x), target))

    run()
    assert len({peak_bytes(run) for _ in range(3)}) == 1
