"""Of what has a number for each position and entry, a training step through the cache keeps the mask alone."""

from __future__ import annotations

import pytest
import torch
from peak_memory import largest_bytes

import nextword as nw
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context
from tests.helpers.trained_by_objectives import build_objective

T, D, V = 300, 4, 30


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["mle", "histalign"])
def test_no_tensor_has_a_float_for_each_position_and_entry(objective: str) -> None:
    chance = torch.Generator().manual_seed(0)
    states = torch.randn(1, T, D, generator=chance).requires_grad_()
    weight = torch.randn(V, D, generator=chance).requires_grad_()
    ids = torch.randint(V, (1, T), generator=chance)
    head, aim = build_head("cache", D, V).float(), build_objective(objective, V)
    context = decoder_context(head, states, ids, LinearVocabulary(weight), embedding=weight)

    def step() -> None:
        with nw.score_memory(0.002):
            aim(head, context, ids[0]).total.backward()

    assert largest_bytes(step) <= T * T  # the mask, a byte each
    assert states.grad is not None
