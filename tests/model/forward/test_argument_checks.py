"""Tensors that do not fit, and what a user is told before torch fails somewhere inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache

import nextword as nw
from tests.helpers.families import tiny

IDS = torch.randint(3, 20, (2, 5), generator=torch.Generator().manual_seed(0))
ONES = torch.ones_like(IDS)
WHOLE = "must be whole numbers"


@pytest.mark.few(16)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_ids": IDS > 9}, f"input_ids: {WHOLE}, .* .torch.bool given"),
        ({"input_ids": IDS.short()}, f"input_ids: {WHOLE}, .* .torch.int16 given"),
        ({"input_ids": IDS.float()}, f"input_ids: {WHOLE}, .* .torch.float32 given.; vectors go to inputs_embeds"),
        ({"input_ids": IDS.numpy()}, "input_ids: must be a tensor of ids .* .ndarray given"),
        ({"input_ids": IDS[None]}, r"input_ids: must be \(batch, positions\) \(shape \(1, 2, 5\) given"),
        ({"input_ids": IDS[:0]}, "empty batch: at least one row is needed"),
        ({"input_ids": None, "inputs_embeds": IDS}, "must be vectors .torch.int64 given.; ids go to input_ids"),
        ({"input_ids": None, "inputs_embeds": IDS.float()}, r"positions, width\) \(shape \(2, 5\) given"),
        ({"attention_mask": ONES[:, 1:]}, r"attention_mask: must be \(2, 5\) \(shape \(2, 4\) given"),
        ({"attention_mask": ONES.repeat(1, 2)}, r"attention_mask: must be \(2, 5\) \(shape \(2, 10\) given"),
        ({"attention_mask": ONES[:1]}, r"attention_mask: must be \(2, 5\) \(shape \(1, 5\) given"),
        ({"attention_mask": ONES[0]}, r"must be a tensor \(batch, positions\), .* \(shape \(5,\) given"),
        ({"attention_mask": ONES.tolist()}, "attention_mask: must be a tensor .* .list given"),
        ({"attention_mask": (1.0 - ONES) - torch.eye(2, 5)}, "attention_mask: -1 found; give 1 for tokens and 0"),
        ({"position_ids": ONES.float()}, "position_ids: must be a tensor of whole numbers .torch.float32 given"),
        ({"labels": IDS.float()}, f"labels: {WHOLE}, .* .torch.float32 given"),
        ({"labels": IDS > 9}, f"labels: {WHOLE}, .* .torch.bool given"),
        ({"labels": IDS.tolist()}, "labels: must be a tensor of ids .* .list given"),
        ({"labels": IDS[:, 1:]}, r"labels: must be as the tokens are, \(2, 5\) \(shape \(2, 4\) given"),
        ({"labels": IDS[0]}, r"labels: must be \(batch, positions\) \(shape \(5,\) given"),
        ({"labels": -ONES}, "labels: token id -1 is outside .* -100, which is not scored"),
        ({"shift_labels": IDS[:, 1:]}, r"shift_labels: must be as the tokens are, .* \(shape \(2, 4\) given"),
        ({"shift_labels": IDS.float(), "labels": IDS}, f"shift_labels: {WHOLE}, .* .torch.float32 given"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("training", [False, True])
def test_decoder(given: dict[str, Any], message: str, training: bool) -> None:
    model = nw.attach(tiny("gpt2"), "cache", "unlikelihood+seq:1,3x4").train(training)
    with pytest.raises(ValueError, match=message):
        model(**{"input_ids": IDS, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_ids": IDS > 9}, f"input_ids: {WHOLE}, .* .torch.bool given"),
        ({"input_ids": IDS[:1]}, "source: 1 rows for 2 of the decoder"),
        ({"input_ids": IDS[:, :0]}, "empty source"),
        ({"attention_mask": ONES[:, 1:]}, r"attention_mask: must be \(2, 5\) \(shape \(2, 4\) given"),
        ({"decoder_input_ids": IDS.float()}, "decoder_input_ids: must be .*; vectors go to decoder_inputs_embeds"),
        ({"decoder_attention_mask": ONES[:, 1:]}, r"decoder_attention_mask: must be \(2, 5\) \(shape \(2, 4\) given"),
        ({"labels": IDS.float()}, f"labels: {WHOLE}, .* .torch.float32 given"),
        ({"labels": IDS, "shift_labels": IDS}, "shift_labels: for decoder-only models"),
        ({"source_ids": IDS.float()}, f"source_ids: {WHOLE}, .* .torch.float32 given"),
        ({"source_ids": IDS[:, 1:]}, r"source_ids: .* each of the encoder's states, .* \(shape \(2, 4\) given"),
    ],
)  # fmt: skip
def test_encoder_decoder(given: dict[str, Any], message: str) -> None:
    model = nw.attach(tiny("t5"), "softmax+e")
    start = {} if "labels" in given else {"decoder_input_ids": IDS}
    with pytest.raises(ValueError, match=message):
        model(**{"input_ids": IDS, **start, **given})


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (ONES, "positions: must be a mask of torch.bool, .* .torch.int64 given"),
        (ONES.tolist(), "positions: must be a mask .* .list given"),
        (ONES[:, 1:].bool(), r"positions: must be \(2, 5\) \(shape \(2, 4\) given"),
    ],
)
def test_positions(positions: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nw.attach(tiny("gpt2"), "softmax").distribution(IDS, positions=positions)


@pytest.mark.parametrize("head", ["softmax", "cache"])
@torch.no_grad()
def test_a_mask_covers_what_the_cache_holds(head: str) -> None:
    model = nw.attach(tiny("gpt2"), head).eval()
    kv_cache = model(IDS[:, :3], past_key_values=DynamicCache(), use_cache=True).past_key_values
    with pytest.raises(ValueError, match=r"attention_mask:.*\(2, 2\) given"):
        model(IDS[:, 3:], attention_mask=ONES[:, 3:], past_key_values=kv_cache)
    found = model(IDS[:, 3:], attention_mask=ONES, past_key_values=kv_cache).logits
    torch.testing.assert_close(found, model(IDS).logits[:, 3:])


@pytest.mark.parametrize("objective", ["mle", "unlikelihood"])
def test_labels_of_32_bits(objective: str) -> None:
    for model in (nw.attach(tiny("gpt2"), "cache", objective), nw.attach(tiny("t5"), "softmax+ce", objective)):
        expected = model.eval()(IDS, labels=IDS).loss
        torch.testing.assert_close(model(IDS, labels=IDS.int()).loss, expected)
