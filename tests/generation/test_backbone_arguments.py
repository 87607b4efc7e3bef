"""What the backbone takes, ``generate`` takes with a head too, and the same words come of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import LEDConfig, LEDForConditionalGeneration

import nextword as nw
from tests.helpers.generating_models import NEW, VOCABULARY, backbone, left_padded, prompt

HEADS = ["softmax", "softmax+cpr:3"]
"""At its start the second has the backbone's distribution, and it remembers."""


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("head", HEADS)
def test_token_types(head: str, beams: int) -> None:
    bare = backbone("gpt2")
    ids, mask = left_padded(prompt(), [2, 0])
    given: dict[str, Any] = {"attention_mask": mask, "num_beams": beams, "max_new_tokens": NEW, "min_new_tokens": NEW}
    types = {"token_type_ids": prompt(2, ids.shape[1], seed=8)}
    model = nw.attach(copy.deepcopy(bare), head).eval()
    found = model.generate(ids, **given, **types)
    assert torch.equal(found, bare.generate(ids, **given, **types))
    assert not torch.equal(found, model.generate(ids, **given))


@pytest.mark.parametrize("head", [*HEADS, "softmax+ce"])
def test_global_attention(head: str) -> None:
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "attention_window": [4]}
    torch.manual_seed(0)
    bare = LEDForConditionalGeneration(
        LEDConfig(vocab_size=VOCABULARY, init_std=0.5, max_encoder_position_embeddings=32, **sizes, **heads)
    ).eval()
    ids = prompt(2, 12)
    everywhere = {"global_attention_mask": torch.ones_like(ids), "max_new_tokens": NEW}
    model = nw.attach(copy.deepcopy(bare), head).eval()
    found = model.generate(ids, **everywhere)
    assert torch.equal(found, bare.generate(ids, **everywhere))
    assert not torch.equal(found, model.generate(ids, max_new_tokens=NEW))


def test_what_nobody_takes_is_refused() -> None:
    model = nw.attach(backbone("gpt2"), "softmax")
    with pytest.raises(ValueError, match=r"\['token_typ_ids'\]"):
        model.generate(prompt(), token_typ_ids=prompt(), max_new_tokens=2)
