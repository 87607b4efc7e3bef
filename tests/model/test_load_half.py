"""Saved models loaded in half precision: the head is in it whatever a backbone keeps in single precision."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

import nextword as nw
from tests.helpers.families import inputs
from tests.helpers.head_specs import specs, with_head

HEADS = specs()


@pytest.mark.few(3)
@pytest.mark.parametrize("head", HEADS)
@torch.no_grad()
def test_t5_keeps_layers_of_its_own_and_none_of_the_heads(head: str, tmp_path: Path) -> None:
    """In float16 T5 keeps every ``wo`` of its own in float32; there is a "wo" in ``next_word_head`` too."""
    saved = with_head("t5", HEADS[head]).eval()
    saved.save_pretrained(tmp_path)
    for dtype in (torch.float16, torch.bfloat16):
        expected = copy.deepcopy(saved).to(dtype)
        for name, layer in expected.backbone.named_modules():
            if name.endswith(".wo") and dtype == torch.float16:
                layer.weight.data = saved.backbone.get_parameter(f"{name}.weight").data
        loaded = nw.load(tmp_path, dtype=dtype).eval()
        assert {name: parameter.dtype for name, parameter in loaded.named_parameters()} == {
            name: parameter.dtype for name, parameter in expected.named_parameters()
        }
        given = inputs(loaded)
        assert torch.equal(loaded(**given).logits, expected(**given).logits)
