"""Mixed precision: what is summed or ranked stays in float32 whatever autocast does."""

from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import nextword as nw
from tests.helpers.families import inputs
from tests.helpers.head_specs import specs, with_head

V = 50


def gpt2(width: int = 32):
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=V, n_embd=width, n_layer=2, n_head=2, n_positions=300, initializer_range=0.1, bos_token_id=0,
        eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


@pytest.mark.parametrize("reduction", ["offset_mean", "offset_sum", "pair_sum", "pair_mean"])
def test_histalign_under_autocast(reduction: str) -> None:
    model = nw.attach(gpt2(), "cache", {"objective": "histalign", "reduction": reduction}).train()
    ids = torch.randint(0, V, (2, 300), generator=torch.Generator().manual_seed(1))
    model(input_ids=ids, labels=ids)
    expected = model.loss_parts["ranking_loss"]
    with torch.autocast("cpu", torch.bfloat16):
        model(input_ids=ids, labels=ids).loss.backward()
    # more than 256 pairs share an offset: counted in half precision they would be off by a factor
    torch.testing.assert_close(model.loss_parts["ranking_loss"], expected, rtol=2e-2, atol=0)


@pytest.mark.parametrize(
    ("head", "mode"),
    [("cache", "joint"), ("cache", "cache_only"), ("softmax+cpr:3,8", "joint"), ("copynet", "joint"), ("pg", "joint"),
     ("ps", "joint")],
)  # fmt: skip
def test_sums_to_one_under_autocast(head: str, mode: str) -> None:
    model = nw.attach(gpt2(), head).eval()
    torch.manual_seed(2)
    for parameter in model.next_word_head.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    model.backbone.transformer.ln_f.weight.data *= 6  # large similarities
    ids = torch.randint(0, V, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        total = model.distribution(ids, mode=mode).probs().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=5e-5)


def test_class_scores_are_not_rounded_under_autocast() -> None:
    """Of products in bfloat16 a tenth of a class score was rounding, and a quarter of the gradients."""
    model = with_head("gpt2", specs()["f2"]).eval()
    ids = inputs(model)["input_ids"]
    right = model.distribution(ids)
    with torch.autocast("cpu", torch.bfloat16):
        found = model.distribution(ids)
    assert found.class_scores.dtype is torch.float32
    error = (found.class_scores - right.class_scores).norm() / right.class_scores.norm()
    assert error < 4 * torch.finfo(torch.bfloat16).eps  # that of the states


@pytest.mark.parametrize("side", ["left", "right"])
def test_loss_of_a_padded_batch_is_the_backbones(side: str) -> None:
    bare = gpt2()
    model = nw.attach(bare, "softmax")
    ids = torch.randint(1, V, (4, 8), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[:, slice(0, 5) if side == "left" else slice(5, 8)] = 0
    labels = ids.masked_fill(mask == 0, -100)
    # the backbone has the first token of a left-padded text predicted by padding; here nothing predicts it
    counted = labels.masked_fill(mask.cumsum(1) == 1, -100)
    expected = bare(ids, attention_mask=mask, labels=counted).loss
    torch.testing.assert_close(model(ids, attention_mask=mask, labels=labels).loss, expected)
    torch.testing.assert_close(model(ids, attention_mask=mask, labels=ids).loss, expected)
    items = (counted[:, 1:] != -100).sum()  # what Trainer counts
    torch.testing.assert_close(model(ids, attention_mask=mask, labels=counted, num_items_in_batch=items).loss, expected)


def test_state_scale_is_exact_in_half_precision() -> None:
    config = T5Config(vocab_size=V, d_model=24, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
    assert nw.attach(T5ForConditionalGeneration(config).bfloat16(), "softmax").config.state_scale == 24**-0.5


def test_decoder_deeper_than_its_encoder() -> None:
    config = T5Config(vocab_size=V, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_decoder_layers=3, num_heads=2)
    model = nw.attach(T5ForConditionalGeneration(config), "softmax+mi").eval()
    ids = torch.tensor([[3, 4, 5]])
    total = model.distribution(ids, decoder_input_ids=ids).probs().sum(-1)
    torch.testing.assert_close(total, torch.ones(3))


def test_labels_in_a_sources_memory_are_refused() -> None:
    model = T5ForConditionalGeneration(T5Config(vocab_size=V, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2))
    with pytest.raises(ValueError, match="'inputs'"):
        nw.attach(model, "cache", {"objective": "histalign", "memory_values": "labels"})
