"""The gradient made chunk by chunk is that of all rows at once: every head, every parameter."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BartConfig, BartForConditionalGeneration, GPT2Config, GPT2LMHeadModel

import nextword as nw
from tests.helpers.counted import counts_file

V, B, T = 60, 2, 9
FEW_ROWS = 5 * V * 4 * 3 / 2**20
"""Memory for about five rows of scores, in MiB."""

F2 = {"head": "f2", "counts": counts_file()}

HEADS: list[Any] = [
    "softmax",
    "softmax+mi:2x3",
    "sigsoftmax",
    "mos:3",
    "cache",
    {"head": "cache", "weight": 0.2},
    "softmax+c",
    "softmax+p",
    "softmax+r:4,9",
    "softmax+cpr:4,9+mi:2x3",
    {"head": "softmax", "partition": {"context": True, "rerank": [4], "mode": "add", "rerank_mode": "add"}},
    "mos:3+cpr:4,9",
    "copynet",
    "pg",
    "ps",
    F2,
]


def gradients(model: Any, inputs: dict[str, Tensor], mebibytes: float, precision: Any) -> dict[str, Tensor]:
    model.zero_grad()
    with nw.score_memory(mebibytes), precision:
        loss = model(**inputs).loss
    (loss * 3).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None} | {"loss": loss}


def expect_equal(model: Any, inputs: dict[str, Tensor], tolerance: float, precision: type = nullcontext) -> None:
    torch.manual_seed(1)
    for name, parameter in model.next_word_head.named_parameters():  # away from starts at zero
        parameter.data += 0.1 * torch.randn_like(parameter) if name else 0.0
    whole, chunked = (gradients(model, inputs, memory, precision()) for memory in (64, FEW_ROWS))
    assert whole.keys() == chunked.keys()
    assert any(name.startswith("next_word_head") for name in whole) or not list(model.next_word_head.parameters())
    for name, gradient in whole.items():
        assert not gradient.is_sparse
        scale = gradient.abs().max().clamp_min(1e-6)  # some gradients are zero but for rounding: those of key biases
        assert ((chunked[name] - gradient).abs().max() / scale) < tolerance, name


def gpt2(head: Any, objective: str = "mle", **settings: Any) -> Any:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=V, n_embd=16, n_layer=2, n_head=2, n_positions=T, bos_token_id=0, eos_token_id=0)
    return nw.attach(GPT2LMHeadModel(config), head, objective, **settings).eval().double()


def texts() -> dict[str, Tensor]:
    ids = torch.randint(0, 12, (B, T), generator=torch.Generator().manual_seed(2))
    return {"input_ids": ids, "labels": ids.masked_fill(torch.arange(T) % 4 == 3, -100)}


@pytest.mark.few(6)
@pytest.mark.parametrize("head", HEADS, ids=lambda head: head if isinstance(head, str) else head["head"])
def test_every_head(head: Any) -> None:
    expect_equal(gpt2(head), texts(), 1e-10)


@pytest.mark.parametrize("objective", ["histalign", "unlikelihood"])
def test_objectives(objective: str) -> None:
    expect_equal(gpt2("cache", objective).train(False), texts(), 1e-10)


@pytest.mark.parametrize("head", ["softmax+cepr:4,9", "pg", "mos:3", "cache"])
def test_encoder_decoder_with_a_bias_of_the_scores(head: str) -> None:
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=V, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=T + 3,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2,
    )  # fmt: skip
    model = nw.attach(BartForConditionalGeneration(config), head).eval().double()
    model.backbone.final_logits_bias += torch.randn(1, V, dtype=torch.float64)
    ids = torch.randint(3, 15, (B, T), generator=torch.Generator().manual_seed(2))
    expect_equal(model, {"input_ids": ids, "labels": ids.flip(1)}, 1e-10)


@pytest.mark.parametrize(
    "head",
    ["softmax", "softmax+cpr:4,9", "mos:2", "copynet", F2],
    ids=lambda head: head if isinstance(head, str) else head["head"],
)
def test_autocast(head: Any) -> None:
    """Products are rounded to bfloat16 in both ways, in another order."""

    class HalfPrecision(AbstractContextManager[None]):
        def __enter__(self) -> None:
            self.autocast = torch.autocast("cpu", torch.bfloat16)
            self.autocast.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.autocast.__exit__(*error)

    expect_equal(gpt2(head).float(), texts(), 0.05, HalfPrecision)


def test_a_frozen_output_layer_gets_none() -> None:
    model = gpt2("softmax+cpr:4,9")
    model.get_output_embeddings().weight.requires_grad_(False)
    expect_equal(model, texts(), 1e-10)
    assert model.get_output_embeddings().weight.grad is None


def test_gradient_of_a_conditioned_model() -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(vocab_size=30, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12)
    encoder = BertModel(config)
    model = gpt2("mos:2+cr:4", conditioner="dau", encoder=encoder)
    auxiliary = {
        "aux_input_ids": torch.randint(1, 30, (B, 5)),
        "aux_attention_mask": torch.ones(B, 5, dtype=torch.long),
    }
    for parameter in model.conditioner.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    expect_equal(model, texts() | auxiliary, 1e-10)
    assert any(p.grad is not None and p.grad.any() for p in model.conditioner.parameters())


@pytest.mark.parametrize("mebibytes", [64, FEW_ROWS])
def test_second_derivatives_are_refused_rather_than_wrong(mebibytes: float) -> None:
    model, inputs = gpt2("softmax"), texts()
    weight = model.backbone.transformer.h[0].mlp.c_fc.weight
    with nw.score_memory(mebibytes):
        loss = model(**inputs).loss
        with pytest.raises(RuntimeError, match=r"use log_probs\(\)"):
            torch.autograd.grad(loss, weight, create_graph=True)


def test_log_probs_has_second_derivatives() -> None:
    model = gpt2("softmax")
    states = torch.randn(3, 16, dtype=torch.float64, requires_grad=True)
    vocabulary = model.context({"input_ids": texts()["input_ids"]}).vocabulary

    def log_probs(given: Tensor) -> Tensor:
        return nw.distribution.SoftmaxDistribution(vocabulary, given).log_probs()[:, :4]

    assert torch.autograd.gradgradcheck(log_probs, states)
