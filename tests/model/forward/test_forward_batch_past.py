"""Caches that a forward pass makes by itself."""

from __future__ import annotations

import pytest
import torch
from transformers import T5GemmaConfig, T5GemmaForConditionalGeneration

import nextword as nw

WINDOW = 4
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 48, "head_dim": 8}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": WINDOW, "query_pre_attn_scalar": 8}


@pytest.mark.parametrize("source_length", [WINDOW - 1, WINDOW, 3 * WINDOW])
def test_a_source_longer_than_the_decoders_window_is_read_whole(source_length: int) -> None:
    """In steps the decoder's layers look back at a few places; those that read the source look at all of it."""
    torch.manual_seed(0)
    marks = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    backbone = T5GemmaForConditionalGeneration(T5GemmaConfig(encoder=dict(SIZES), decoder=dict(SIZES), **marks))
    assert "sliding_attention" in backbone.config.decoder.layer_types
    model = nw.attach(backbone, "softmax+cpr:3,5").eval()
    assert model.carries_head_cache
    source, text = torch.randint(3, 48, (2, source_length)), torch.randint(3, 48, (2, 5))
    with torch.no_grad():
        whole = model(input_ids=source, decoder_input_ids=text, return_logits=True).logits
        # no cache is given: the pass makes one, in which the head's memory rides
        start = model(input_ids=source, decoder_input_ids=text[:, :2], use_cache=True)
        kept = {"past_key_values": start.past_key_values, "return_logits": True}
        found = [
            model(input_ids=source, decoder_input_ids=text[:, place : place + 1], **kept).logits
            for place in range(2, text.shape[1])
        ]
    torch.testing.assert_close(torch.cat(found, 1), whole[:, 2:], atol=1e-5, rtol=1e-5)
