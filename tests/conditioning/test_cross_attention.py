"""Blocks of cross-attention between the layers (bergpt): textbook form, alone and within GPT-2."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.helpers.conditioned_models import WIDTH
from tests.oracles.conditioner_cases import VALID, D, built, check, check_padding, check_whole_model, randn
from tests.oracles.textbook import conditioning as textbook


def form(model: Any, row: Tensor, states: Tensor) -> Tensor:
    conditioner, gpt2 = model.conditioner, model.backbone
    blocks = {
        layer: partial(
            textbook.bergpt_block,
            source=states,
            valid=torch.ones(len(states), dtype=torch.bool),
            weights=dict(block.named_parameters()),
            heads=block.heads,
        )
        for layer, block in zip(conditioner.chosen, conditioner.blocks, strict=True)
    }
    return (textbook.gpt2_states(gpt2.transformer, row, blocks) @ gpt2.lm_head.weight.T).log_softmax(-1)


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_block(heads: int) -> None:
    conditioner = built({"conditioner": "bergpt", "layers": [1], "heads": heads, "expansion": 3})
    source, states = randn(3, 5, WIDTH), randn(3, 4, D, seed=1)
    kept = conditioner.read(source, VALID)
    block = conditioner.blocks[0]
    made = states + block(states, kept["keys 1"], kept["values 1"], kept["valid"])
    weights = dict(block.named_parameters())
    rows = zip(states, source, VALID, strict=True)
    expected = torch.stack([textbook.bergpt_block(*row, weights, heads) for row in rows])
    leaves = [parameter for name, parameter in weights.items() if name != "key.bias"]
    check(made, expected, [source, states, *leaves])  # a bias of all keys moves no softmax


def test_padding_says_nothing() -> None:
    check_padding("bergpt:2")
    conditioner, states = built("bergpt:2"), randn(3, 5, WIDTH).detach()
    block, asked = conditioner.blocks[0], randn(3, 4, D, seed=1)
    read = [conditioner.read(given, VALID) for given in (states, torch.where(VALID[..., None], states, 1e6))]
    added = [block(asked, kept["keys 1"], kept["values 1"], VALID) for kept in read]
    torch.testing.assert_close(*added, rtol=0, atol=1e-12)


@pytest.mark.parametrize("spec", ["bergpt", "bergpt:3", {"conditioner": "bergpt", "layers": [0, -1]}])
def test_whole_model(spec: Any) -> None:
    check_whole_model(spec, form)
