"""Tiny models as folders, vLLM's answers, and what transformers says to the same prompts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config

import nextword as nw
from tests.helpers.counted import counts_file

VOCABULARY, NEW, LONGEST = 90, 8, 256
_ROTARY = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": LONGEST,
    "pad_token_id": None, "bos_token_id": 1, "eos_token_id": None,
}  # fmt: skip
CONFIGS: dict[str, Any] = {
    "llama": lambda: LlamaConfig(**_ROTARY),
    "qwen2": lambda: Qwen2Config(**_ROTARY, tie_word_embeddings=True),
    "qwen3": lambda: Qwen3Config(**_ROTARY, head_dim=32),
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCABULARY, n_embd=64, n_layer=3, n_head=2, n_positions=LONGEST, bos_token_id=1, eos_token_id=None
    ),
}
HEADS: dict[str, Any] = {
    "softmax": "softmax",
    "softmax+proj": "softmax+proj",
    "softmax+mi:2x3": "softmax+mi:2x3",
    "mos:2": "mos:2",
    "sigsoftmax": "sigsoftmax",
    "softmax+r:5": "softmax+r:5",
    "softmax+c": "softmax+c",
    "softmax+p": "softmax+p",
    "softmax+cpr:3,8+mi": "softmax+cpr:3,8+mi",
    "cache": {"head": "cache", "temperature": 0.5},
    "cache:long": {"head": "cache", "temperature": 0.5, "long": 20},
    "pg": "pg",
    "ps+mi": "ps+mi",
    "copynet": "copynet",
    "f2": {"head": "f2", "counts": counts_file(), "decoupled": False},
}


def saved(folder, family, head):
    """A random model whose weights are so wide that its distributions differ, saved; and the model."""
    torch.manual_seed(3)
    backbone = AutoModelForCausalLM.from_config(CONFIGS[family]())
    model = nw.attach(backbone, HEADS.get(head, head)).eval()
    generator = torch.Generator().manual_seed(5)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            # a score of local embeddings is a product of two projections
            scale = 0.2 if "local" in name else 0.6 if "next_word_head" in name else 2.0
            weight.data.normal_(std=scale / math.sqrt(weight.shape[-1]), generator=generator)
    model.save_pretrained(folder)
    return model


def prompts(count, longest=100, seed=0):
    """Prompts of mixed lengths, a third of which begin alike."""
    generator = torch.Generator().manual_seed(seed)
    shared = torch.randint(2, VOCABULARY, (longest // 2,), generator=generator).tolist()
    made = []
    for number in range(count):
        length = int(torch.randint(1, longest // 2, (), generator=generator))
        own = torch.randint(2, VOCABULARY, (length,), generator=generator).tolist()
        made.append(shared + own if number % 3 == 0 else own)
    return made


def answers(vllm, engine, asked, **settings):
    """What the engine gives to greedy requests."""
    defaults = {
        "temperature": 0.0, "max_tokens": NEW, "logprobs": 3, "prompt_logprobs": 1, "detokenize": False,
        "ignore_eos": True,
    }  # fmt: skip
    sampling = vllm.SamplingParams(**defaults | settings)
    return engine.generate([{"prompt_token_ids": ids} for ids in asked], sampling, use_tqdm=False)


def expect_as_alone(model, asked, given):
    """Greedy tokens are those of ``generate``; log-probabilities of prompt and tokens those of a forward pass."""
    for ids, answer in zip(asked, given, strict=True):
        [output] = answer.outputs
        assert list(output.token_ids) == written_alone(model, ids)
        expect_log_probs(model, ids, answer.prompt_logprobs or [None] * len(ids), output)


def written_alone(model, ids):
    """What greedy ``generate`` writes after one prompt."""
    text = torch.tensor([ids])
    how = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0, "eos_token_id": -1}  # an end is a word too
    made = model.generate(text, attention_mask=torch.ones_like(text), **how)
    return made[0, len(ids) :].tolist()


@torch.no_grad()
def expect_log_probs(model, ids, of_prompt, output):
    """Log-probabilities of a prompt and of an answer's tokens are those of a forward pass."""
    expected = model(input_ids=torch.tensor([ids + list(output.token_ids)])).logits[0].log_softmax(-1)
    for place, listed in enumerate([*of_prompt, *output.logprobs]):
        for token, one in (listed or {}).items():
            assert one.logprob == pytest.approx(expected[place - 1, token].item(), abs=1e-4)
