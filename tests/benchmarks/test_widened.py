"""A widened model gives the same distributions."""

from __future__ import annotations

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration
from widened import widened

import nextword as nw


@pytest.mark.parametrize("head", ["pg", "pg+mi", "softmax+cepr:3"])
def test_widened_model_gives_the_same_distribution(head: str) -> None:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=30, d_model=8, num_heads=2, d_kv=4, d_ff=12, num_layers=2, num_decoder_layers=2,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    small = nw.attach(T5ForConditionalGeneration(config), head).eval()
    with torch.no_grad():
        for weight in small.parameters():
            weight.normal_(std=0.5)
    large = widened(
        small, vocab_size=50, d_model=48, num_heads=6, d_kv=8, d_ff=20, num_layers=3, num_decoder_layers=4
    )  # fmt: skip
    ids = {"input_ids": torch.randint(2, 30, (2, 9)), "decoder_input_ids": torch.randint(2, 30, (2, 7))}
    with torch.no_grad():
        one, other = small(**ids).logits, large(**ids).logits
    torch.testing.assert_close(other[..., :30].log_softmax(-1), one.log_softmax(-1), atol=1e-3, rtol=1e-3)
    assert other[..., 30:].max() < -100
