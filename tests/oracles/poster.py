"""Parameters of GPT-2 small with a head, in millions: a column of the Softmax-CPR poster (Chang et al. 2023)."""

from __future__ import annotations

from functools import cache

import torch
from transformers import AutoModelForCausalLM, GPT2Config

from nextword.heads import Dimensions, parse_head, registry

ROUNDING = 0.05 + 1e-9
"""The poster prints one decimal."""


@cache
def gpt2_small() -> int:
    """Parameters of GPT-2 small."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(GPT2Config())
    return sum(parameter.numel() for parameter in model.parameters())


def added(spec: str) -> int:
    """Parameters of a head on GPT-2 small."""
    config, small = parse_head(spec), GPT2Config()
    sizes = Dimensions(
        hidden=small.n_embd, layer=small.n_embd, layers=small.n_layer, vocab_size=small.vocab_size, source=None
    )
    with torch.device("meta"):
        head = registry.get(config.head)(config, sizes)
    return sum(parameter.numel() for parameter in head.parameters())


def millions(spec: str) -> float:
    """Parameters of both together."""
    return (gpt2_small() + added(spec)) / 1e6
