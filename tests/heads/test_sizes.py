"""Parameters of every GPT-2 row of the Softmax-CPR poster, at the real sizes of GPT-2 small."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config

from nextword.heads import Dimensions, parse_head, registry

POSTER = {
    "softmax+proj": 125.0,
    "softmax+mi": 130.9,
    "mos:3": 126.2,
    "mos:3+mi": 133.3,
    "pg": 126.2,
    "ps": 126.2,
    "softmax+r:20+mi": 132.1,
    "softmax+r:20,100+mi": 133.3,
    "softmax+c+mi": 132.1,
    "softmax+p+mi": 133.3,
    "pg+mi": 133.3,
    "ps+mi": 133.3,
    "softmax+cr:20,100+mi": 134.5,
    "softmax+cpr:20,100+mi": 136.8,
    "mos:3+cpr:20,100+mi": 139.2,
}
"""Millions. The row "R:20" has the size that it has with multiple inputs."""


@pytest.fixture(scope="module")
def gpt2_small() -> int:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(GPT2Config())
    return sum(parameter.numel() for parameter in model.parameters())


def added(spec: str) -> int:
    config = parse_head(spec)
    small = AutoConfig.for_model("gpt2")
    sizes = Dimensions(
        hidden=small.n_embd, layer=small.n_embd, layers=small.n_layer, vocab_size=small.vocab_size, source=None
    )
    with torch.device("meta"):
        head = registry.get(config.head)(config, sizes)
    return sum(parameter.numel() for parameter in head.parameters())


@pytest.mark.parametrize(("spec", "millions"), POSTER.items())
def test_sizes_are_those_of_the_poster(spec: str, millions: float, gpt2_small: int) -> None:
    assert abs((gpt2_small + added(spec)) / 1e6 - millions) < 0.05 + 1e-9


def test_softmax_and_cache_add_nothing(gpt2_small: int) -> None:
    assert gpt2_small == 124_439_808
    assert added("softmax") == added("cache") == 0
