"""A loss that is read off logits is the loss that a pass without logits computes, and nothing is multiplied twice."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import nextword as nw
from tests.helpers.counted import counts_file

V, B, T = 211, 3, 14
HEADS = {
    "softmax": 1, "softmax+mi": 1, "softmax+proj": 1, "sigsoftmax": 1, "pg": 1, "ps+mi": 1, "copynet": 1, "cache": 1,
    "cache:temperature=8,weight=0.05": 1, "cache:cache_only": 1, "softmax+cpr:5,10+mi": 1, "mos:3": 3,
    "mos:2+cpr:5+mi": 2,
}  # fmt: skip
"""How many products with the output embedding each head needs."""
OF_ALL = ["mle", "unlikelihood", "face:opr"]
OF_MEMORY = ["histalign", "histalign:paper", "mle:labels"]
PAIRS = [
    (spec, objective)
    for spec in [*HEADS, "cache:weight=0", "f2"]
    for objective in [*OF_ALL, *(OF_MEMORY if spec.startswith("cache") else [])]
]


class RowsScored(TorchDispatchMode):
    """How many rows of V scores are made by multiplication, however they are cut into chunks."""

    rows = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "baddbmm") and made.shape[-1] == V:
            self.rows += made.numel() // V
        return made


def with_head(spec: str, objective: str = "mle", backbone: str = "gpt2") -> Any:
    torch.manual_seed(0)
    bare: Any
    if backbone == "gpt2":
        sizes = {"vocab_size": V, "n_embd": 16, "n_layer": 3, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
        bare = GPT2LMHeadModel(GPT2Config(**sizes))
    else:
        t5 = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
        bare = T5ForConditionalGeneration(T5Config(vocab_size=V, **t5))
    f2 = {"head": "f2", "counts": counts_file(), "start": "random"}
    head = {"cache:cache_only": {"head": "cache", "mode": "cache_only"}, "f2": f2}.get(spec, spec)
    model = nw.attach(bare.double().eval(), head, objective).double().eval()
    with torch.no_grad():
        for weight in model.next_word_head.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return model


def batch() -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(1)
    ids = torch.randint(1, V, (B, T), generator=chance)
    ids[:, T // 2 :] = ids[:, : T - T // 2]
    mask = torch.ones_like(ids)
    mask[1, :3] = 0  # padding on either side
    mask[2, -4:] = 0
    hidden = torch.rand(ids.shape, generator=chance) < 0.2
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(hidden, -100)}


@pytest.mark.few(4)
@pytest.mark.parametrize("spec", HEADS)
def test_one_product_for_each_softmax(spec: str) -> None:
    model, inputs = with_head(spec), batch()
    with torch.no_grad():
        model(**inputs)  # proves the output layer, once
        with RowsScored() as watch:
            out = model(**inputs)
    assert out.logits.shape == (B, T, V)
    assert watch.rows == HEADS[spec] * B * T


def test_the_watch_sees_a_second_product() -> None:
    model, inputs = with_head("softmax"), batch()
    model(**inputs)
    with RowsScored() as watch:
        model(**inputs)  # a loss with a gradient is made chunk by chunk, apart from the logits
    assert watch.rows > B * T


@pytest.mark.few(4)
@pytest.mark.parametrize(("spec", "objective"), PAIRS)
def test_the_loss_is_that_of_a_pass_without_logits(spec: str, objective: str) -> None:
    model, inputs = with_head(spec, objective), batch()
    with torch.no_grad():
        alone = model(**inputs, return_logits=False)
        parts = dict(model.loss_parts)
        both, logits = model(**inputs), model(**(inputs | {"labels": None})).logits
    torch.testing.assert_close(both.loss, alone.loss, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model.loss_parts, parts, rtol=1e-12, atol=1e-12)
    assert torch.equal(both.logits, logits)


def test_an_encoder_decoder_reads_it_off_too() -> None:
    model, inputs = with_head("pg", backbone="t5"), batch()
    with torch.no_grad():
        model(**inputs)
        with RowsScored() as watch:
            both = model(**inputs)
        alone = model(**inputs, return_logits=False)
    assert watch.rows == B * T
    torch.testing.assert_close(both.loss, alone.loss, rtol=1e-12, atol=1e-12)


def test_texts_of_one_row() -> None:
    model, ids = with_head("cache"), batch()["input_ids"]
    positions = torch.cat([torch.arange(5), torch.arange(T - 5)]).expand(B, -1)
    inputs = {"input_ids": ids, "position_ids": positions, "labels": ids}
    with torch.no_grad():
        both, alone = model(**inputs), model(**inputs, return_logits=False)
    torch.testing.assert_close(both.loss, alone.loss, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("keep", [1, torch.tensor([2, 5])])
def test_logits_of_some_positions_say_nothing_of_the_others(keep: Any) -> None:
    model, inputs = with_head("cache"), batch()
    with torch.no_grad():
        out, alone = model(**inputs, logits_to_keep=keep), model(**inputs, return_logits=False)
    assert out.logits.shape[1] < T
    assert torch.equal(out.loss, alone.loss)


@pytest.mark.parametrize("spec", ["softmax", "cache:temperature=8,weight=0.05", "mos:3"])
def test_gradients_in_evaluation_mode(spec: str) -> None:
    model, inputs = with_head(spec), batch()
    out = model(**inputs)
    out.loss.backward()
    found = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    model(**inputs, return_logits=False).loss.backward()
    expected = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_what_is_returned_is_as_it_always_was() -> None:
    model, inputs = with_head("softmax"), batch()
    with torch.no_grad():
        out, bare = model(**inputs), model.backbone(**inputs, use_cache=False)
        loss, logits, *_ = model(**inputs, return_dict=False)
    assert list(out.keys()) == list(bare.keys())
    assert torch.equal(out[0], loss)
    assert torch.equal(out.to_tuple()[1], logits)
    assert torch.equal(logits, bare.logits)
    assert torch.equal(pickle.loads(pickle.dumps(out)).logits, logits)
    out.logits.zero_()  # the caller's own: nothing else reads them
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, logits)


def test_half_precision_sums_in_single() -> None:
    model, inputs = with_head("softmax").bfloat16(), batch()
    with torch.no_grad():
        both, alone = model(**inputs), model(**inputs, return_logits=False)
    assert both.logits.dtype is torch.bfloat16
    torch.testing.assert_close(both.loss, alone.loss, rtol=1e-6, atol=1e-6)
