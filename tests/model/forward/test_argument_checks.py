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
WHOLE = "whole numbers are needed"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_ids": IDS > 9}, f"input_ids: torch.bool given, {WHOLE}"),
        ({"input_ids": IDS.short()}, f"input_ids: torch.int16 given, {WHOLE}"),
        ({"input_ids": IDS.float()}, f"input_ids: torch.float32 given, {WHOLE} .*; vectors go to inputs_embeds"),
        ({"input_ids": IDS.numpy()}, "input_ids: a tensor of ids .* is needed, ndarray given"),
        ({"input_ids": IDS[None]}, r"input_ids: shape \(1, 2, 5\), \(batch, places\) is needed"),
        ({"input_ids": IDS[:0]}, "empty batch: at least one row is needed"),
        ({"input_ids": None, "inputs_embeds": IDS}, "inputs_embeds: torch.int64 given, .* ids go to input_ids"),
        ({"input_ids": None, "inputs_embeds": IDS.float()}, r"inputs_embeds: shape \(2, 5\), expected \(batch"),
        ({"attention_mask": ONES[:, 1:]}, r"attention_mask: shape \(2, 4\), expected \(2, 5\)"),
        ({"attention_mask": ONES.repeat(1, 2)}, r"attention_mask: shape \(2, 10\), expected \(2, 5\)"),
        ({"attention_mask": ONES[:1]}, r"attention_mask: shape \(1, 5\), expected \(2, 5\)"),
        ({"attention_mask": ONES[0]}, r"attention_mask: shape \(5,\) given, a tensor \(batch, places\)"),
        ({"attention_mask": ONES.tolist()}, "attention_mask: list given, a tensor"),
        ({"attention_mask": (1.0 - ONES) - torch.eye(2, 5)}, "attention_mask: -1 found, 1 stands for tokens and 0"),
        ({"position_ids": ONES.float()}, "position_ids: torch.float32 given, a tensor of whole numbers"),
        ({"labels": IDS.float()}, f"labels: torch.float32 given, {WHOLE}"),
        ({"labels": IDS > 9}, f"labels: torch.bool given, {WHOLE}"),
        ({"labels": IDS.tolist()}, "labels: a tensor of ids .* is needed, list given"),
        ({"labels": IDS[:, 1:]}, r"labels: shape \(2, 4\), expected that of the tokens, \(2, 5\)"),
        ({"labels": IDS[0]}, r"labels: shape \(5,\), \(batch, places\) is needed"),
        ({"labels": -ONES}, "labels: token id -1 is outside .* -100, which is not scored"),
        ({"shift_labels": IDS[:, 1:]}, r"shift_labels: shape \(2, 4\), expected that of the tokens"),
        ({"shift_labels": IDS.float(), "labels": IDS}, f"shift_labels: torch.float32 given, {WHOLE}"),
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
        ({"input_ids": IDS > 9}, f"input_ids: torch.bool given, {WHOLE}"),
        ({"input_ids": IDS[:1]}, "source: 1 rows for 2 of the decoder"),
        ({"input_ids": IDS[:, :0]}, "empty source"),
        ({"attention_mask": ONES[:, 1:]}, r"attention_mask: shape \(2, 4\), expected \(2, 5\)"),
        ({"decoder_input_ids": IDS.float()}, "decoder_input_ids: torch.float32 .* go to decoder_inputs_embeds"),
        ({"decoder_attention_mask": ONES[:, 1:]}, r"decoder_attention_mask: shape \(2, 4\), expected \(2, 5\)"),
        ({"labels": IDS.float()}, f"labels: torch.float32 given, {WHOLE}"),
        ({"labels": IDS, "shift_labels": IDS}, "shift_labels: for decoder-only models"),
        ({"source_ids": IDS.float()}, f"source_ids: torch.float32 given, {WHOLE}"),
        ({"source_ids": IDS[:, 1:]}, r"source_ids: shape \(2, 4\), expected that of the encoder's states"),
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
        (ONES, "positions: torch.int64 given, a mask of torch.bool is needed"),
        (ONES.tolist(), "positions: list given"),
        (ONES[:, 1:].bool(), r"positions: shape \(2, 4\), expected \(2, 5\)"),
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
    with pytest.raises(ValueError, match=r"attention_mask: shape \(2, 2\), expected \(2, 5\): 3 places in the KV cach"):
        model(IDS[:, 3:], attention_mask=ONES[:, 3:], past_key_values=kv_cache)
    found = model(IDS[:, 3:], attention_mask=ONES, past_key_values=kv_cache).logits
    torch.testing.assert_close(found, model(IDS).logits[:, 3:])


@pytest.mark.parametrize("objective", ["mle", "unlikelihood"])
def test_labels_of_32_bits(objective: str) -> None:
    for model in (nw.attach(tiny("gpt2"), "cache", objective), nw.attach(tiny("t5"), "softmax+ce", objective)):
        expected = model.eval()(IDS, labels=IDS).loss
        torch.testing.assert_close(model(IDS, labels=IDS.int()).loss, expected)
