from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nextword.checking.audit.sampling_properties import judged, largest_step, positions_in_order

V, N = 50, 2000


def failures(chances: Callable[[Tensor], Tensor], audits: int) -> int:
    """Of so many audits those in which any test fails."""
    failed = 0
    for seed in range(audits):
        generator = torch.Generator().manual_seed(seed)
        told = (2 * torch.randn(4, V, generator=generator, dtype=torch.float64)).log_softmax(-1)
        draws = [
            ([row], one, torch.multinomial(chances(one), N, replacement=True, generator=generator))
            for row, one in enumerate(told)
        ]
        failed += any(found.value > 1 for found in judged(draws))
    return failed


@pytest.mark.slow
def test_right_draws_fail_as_seldom_as_is_said() -> None:
    """At 1e-3 each, more than 3 of 200 have chance 7e-5."""
    assert failures(torch.exp, 200) <= 3


@pytest.mark.parametrize(
    "chances",
    [
        lambda told: (told / 0.85).softmax(-1),
        lambda told: (told / 1.2).softmax(-1),
        lambda told: told.exp().masked_fill(told < told.topk(25).values[-1], 0),
        lambda told: told.exp() * 0.95 + 0.05 / V,
    ],
    ids=["colder", "hotter", "top-k", "smoothed"],
)
def test_wrong_draws_are_found(chances: Callable[[Tensor], Tensor]) -> None:
    assert failures(chances, 10) == 10


def test_places_are_uniform_whatever_the_distribution() -> None:
    generator = torch.Generator().manual_seed(0)
    told = torch.tensor([0.7, 0.1, 0.2], dtype=torch.float64).log()
    drawn = torch.multinomial(told.exp(), 20_000, replacement=True, generator=generator)
    positions = positions_in_order(told, drawn, 0)
    assert largest_step(positions) < 0.015
    assert bool(((positions < 0.7) == (drawn == 0)).all())
    assert bool(((positions > 0.9) == (drawn == 1)).all())
