"""What the backbone's own outputs hold beside the states that the head reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nextword as nw
from tests.helpers.families import tiny

IDS = torch.randint(3, 20, (2, 6), generator=torch.Generator().manual_seed(0))
OTHERS = torch.randint(3, 20, (2, 6), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize("asked", [[0], [-1, 1], 1, True, False])
@torch.no_grad()
def test_the_layers_that_are_asked_for(family: str, asked: Any) -> None:
    """With a head that reads layers itself, as without."""
    bare = tiny(family)
    inputs = {"input_ids": IDS} | ({"decoder_input_ids": OTHERS} if family == "t5" else {})
    expected, found = (
        model(**inputs, output_hidden_states=asked) for model in (bare, nw.attach(tiny(family), "softmax+mi").eval())
    )
    names = {"hidden_states", "decoder_hidden_states", "encoder_hidden_states"} & set(expected)
    every = bare(**inputs, output_hidden_states=True)
    chosen = not isinstance(asked, bool) and any(layer is None for name in names for layer in expected[name])
    if any(len(expected[name]) != len(every[name]) for name in names) or not (chosen or isinstance(asked, bool)):
        pytest.skip("this version of transformers does not put None where a layer was not asked for")
    assert names == {"hidden_states", "decoder_hidden_states", "encoder_hidden_states"} & set(found)
    for name in names:
        assert [layer is None for layer in found[name]] == [layer is None for layer in expected[name]]
        for ours, own in zip(found[name], expected[name], strict=True):
            assert ours is None or torch.equal(ours, own)
