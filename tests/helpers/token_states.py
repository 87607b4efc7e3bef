"""A model whose states depend on each token alone, so that it does not matter in which windows a text is read."""

from __future__ import annotations

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw

POSITIONS = 400


def token_model(vocab_size: int, head: str) -> Any:
    """In double precision; neither attention nor positions reach a state."""
    torch.manual_seed(0)
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": vocab_size, "n_positions": POSITIONS}
    gpt2 = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, initializer_range=0.8))
    for weight in [gpt2.transformer.wpe, *(layer.attn.c_proj for layer in gpt2.transformer.h)]:
        weight.weight.data.zero_()
    return nw.attach(gpt2.double().eval(), head)


@torch.no_grad()
def summed_nll(model: Any, ids: list[int]) -> float:
    """Of a text behind its start token, in one pass."""
    row = torch.tensor([ids])
    return -float(model.distribution(row)[slice(0, len(ids) - 1)].log_prob(row[0, 1:, None]).sum())
