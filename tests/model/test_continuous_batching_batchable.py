"""What continuous batching refuses, and what it says to do instead."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from transformers import CompileConfig

import nextword as nw
from tests.helpers.batched import batching, greedy
from tests.helpers.generating_models import PAD, headed

SIZES = {"vocab_size": 40, "pad_token_id": PAD, "bos_token_id": 1, "eos_token_id": None}


def refused(model: Any, match: str, settings: Any = None, batches: Any = None) -> None:
    """Before anything starts, by each way in."""
    with pytest.raises(ValueError, match=match):
        model.generate_batch([[3, 4]], settings or greedy(), batches or batching())
    with pytest.raises(ValueError, match=match):
        model.init_continuous_batching(settings or greedy(), batches or batching())


def test_an_encoder() -> None:
    refused(
        headed("t5", "source cache"),
        "continuous batching: must be used with a decoder-only model .an encoder-decoder model given.; use generate",
    )


def test_beams() -> None:
    refused(headed("gpt2", "cache"), r"num_beams: must be 1 .* \(4 given\); use generate", greedy(num_beams=4))


@pytest.mark.parametrize("head", ["softmax", "cache"])
def test_attention_that_would_read_other_requests(head: str) -> None:
    """transformers lets such a model write, and its requests read each other."""
    torch.manual_seed(0)
    backbone = hf.BloomForCausalLM(hf.BloomConfig(**SIZES, hidden_size=16, n_layer=2, n_head=2)).eval()
    refused(nw.attach(backbone, head), "BloomForCausalLM does not call transformers' attention interface.*use generate")


@pytest.mark.parametrize("family", ["lfm2", "mamba"])
def test_layers_without_a_paged_cache(family: str) -> None:
    refused(headed(family, "softmax"), "has layers without a paged cache; use generate")


def test_capped_attention_scores() -> None:
    refused(headed("gemma2", "softmax"), r"attn_logit_softcapping: must be None .* \(50\.0 given\)")


def test_windows_alone() -> None:
    refused(headed("mistral", "cache"), "remembers the whole text, and all layers of MistralForCausalLM keep a sliding")


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        ("cpu_offload_space", 1.0),
        ("use_cuda_graph", True),
        ("use_cuda_graph", (False, True)),
        ("varlen_compile_config", CompileConfig()),
        ("default_compile_level", 1),
    ],
)
def test_settings_that_lose_or_freeze_the_memory(setting: str, given: Any) -> None:
    refused(headed("gpt2", "cache"), rf"{setting}: must be .* with head 'cache", batches=batching(**{setting: given}))


def test_a_choice_before_each_token_is_not_compiled_either() -> None:
    refused(headed("gpt2", "f2 decoupled"), "use_cuda_graph: must be off", batches=batching(use_cuda_graph=True))
