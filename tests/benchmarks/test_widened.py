"""A widened model gives the same distributions."""

from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from widened import widened

import nextword as nw


@pytest.mark.parametrize("head", ["pg", "pg+mi", "softmax+cpr:3"])
def test_widened_model_gives_the_same_distribution(head: str) -> None:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=30, n_embd=8, n_layer=3, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0)
    small = nw.attach(GPT2LMHeadModel(config), head).eval()
    with torch.no_grad():
        for weight in small.parameters():
            weight.normal_(std=0.5)
    large = widened(small, vocab_size=50, n_embd=48, n_layer=5, n_head=6, n_positions=16)
    ids = torch.randint(0, 30, (2, 12))
    with torch.no_grad():
        one, other = small(input_ids=ids).logits, large(input_ids=ids).logits
    torch.testing.assert_close(other[..., :30].log_softmax(-1), one.log_softmax(-1), atol=1e-3, rtol=1e-3)
    assert other[..., 30:].max() < -100
