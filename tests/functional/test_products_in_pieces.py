"""Products piece by piece, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nextword.functional import products
from nextword.functional.keys_in_place import key_products
from nextword.functional.products import dense_products, product

V, D = 8201, 67  # of 64 pieces and a rest


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many states each batched product was of."""
    seen: list[int] = []
    bmm = torch.bmm

    def recorded(left: Tensor, right: Tensor) -> Tensor:
        seen.append(min(left.shape[1], right.shape[2]))
        return bmm(left, right)

    monkeypatch.setattr(products.torch, "bmm", recorded)
    return seen


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("states", [1, 4, 5, 64])
def test_values(states: int, biased: bool, counted: list[int]) -> None:
    given, weight, bias = random(states, D), random(V, D), random(V) if biased else None
    made = product(given, weight, bias)
    assert counted == [min(states, V // 64)]
    assert made.is_contiguous()
    torch.testing.assert_close(made, F.linear(given, weight, bias), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(product(given, weight.T.contiguous().T, bias), made, rtol=1e-13, atol=1e-13)


def test_gradients() -> None:
    given, weight = random(3, D).requires_grad_(), random(V, D).requires_grad_()
    found = torch.autograd.grad(product(given, weight).sin().sum(), [given, weight])
    wanted = torch.autograd.grad(F.linear(given, weight).sin().sum(), [given, weight])
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("states", "weight"),
    [
        (random(0, D), random(V, D)),
        (random(65, D), random(V, D)),
        (random(3, D), random(V, D)[:7000]),
        (random(3, D).bfloat16(), random(V, D).bfloat16()),
    ],
    ids=["no states", "many states", "small matrix", "half precision"],
)
def test_who_is_left_to_torch(states: Tensor, weight: Tensor, counted: list[int]) -> None:
    assert torch.equal(product(states, weight), F.linear(states, weight))
    assert not counted


def test_autocast_decides_the_precision(counted: list[int]) -> None:
    given, weight = random(3, D).float(), random(V, D).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product(given, weight).dtype == torch.bfloat16
    assert not counted


def test_who_asks(counted: list[int]) -> None:
    """The output layer in a step of generation, and keys of one text; keys of several texts are a batch already."""
    weight, bias = random(V, D), random(V)
    parts = [random(2, D), random(1, D)]
    for made, states in zip(dense_products(weight, bias, parts), parts, strict=True):
        torch.testing.assert_close(made, F.linear(states, weight, bias), rtol=1e-13, atol=1e-13)
    assert counted == [3]
    for texts, queries, calls in ((1, 1, 1), (1, 2, 1), (3, 1, 1), (3, 2, 0)):
        counted.clear()
        asked, keys = random(texts, queries, D), random(texts, V, D)
        torch.testing.assert_close(key_products(asked, keys), asked @ keys.mT, rtol=1e-13, atol=1e-13)
        assert len(counted) == calls
