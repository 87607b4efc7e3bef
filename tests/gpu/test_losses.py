"""Every head on the card: distributions that sum to one, losses and gradients as in float64 on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.functional.frequency.counts import TokenCounts
from tests.helpers.families import inputs, labels
from tests.helpers.head_specs import refused_pairs, specs, with_head
from tests.helpers.on_card import DEVICE, assert_as_in_float64, furthest, learned, moved, on_card

pytestmark = pytest.mark.gpu

_OF_SOURCES = ["softmax", "cache", "pg", "ps+mi", "copynet", "softmax+e", "softmax+cepr:3+mi"]
PAIRS = [
    *(("gpt2", head) for head in specs() if ("gpt2", head) not in refused_pairs()),
    *(("bart", head) for head in _OF_SOURCES),
]
"""Every head on a decoder; those that read a source, and one of each kind, on an encoder-decoder model."""
PRECISIONS = [torch.float32, torch.bfloat16]


def given_to(model: Any) -> dict[str, torch.Tensor]:
    given = inputs(model)
    return given | {"labels": labels(given)}


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize(("family", "head"), PAIRS)
def test_loss_and_gradients(family: str, head: str, dtype: torch.dtype) -> None:
    model = with_head(family, specs()[head], dtype=torch.float64).eval()
    assert_as_in_float64(model, given_to(model), dtype)


@pytest.mark.parametrize("objective", ["histalign", "unlikelihood", "face:opr", "unlikelihood+seq:1,2x2"])
def test_other_objectives(objective: str) -> None:
    model = with_head("gpt2", "cache:published", objective, torch.float64).eval()
    if "+seq" in objective:  # draws texts, by a generator of the device
        found = learned(moved(model, torch.float32), on_card(given_to(model)))
        assert all(one.isfinite().all() for one in found.values())
    else:
        assert_as_in_float64(model, given_to(model), torch.float32)


@pytest.mark.parametrize(("family", "head"), PAIRS)
def test_probabilities_sum_to_one(family: str, head: str) -> None:
    model = moved(with_head(family, specs()[head]).eval())
    with torch.no_grad():
        distribution = model.distribution(**on_card(inputs(model)), use_cache=False)
        log_probs = distribution.log_probs()
        ids = log_probs.argmax(-1, keepdim=True)
        assert log_probs.device.type == DEVICE.type
        sums = log_probs.double().exp().sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-5)
        torch.testing.assert_close(distribution.log_prob(ids), log_probs.gather(1, ids), rtol=0, atol=1e-5)
        draws = distribution.sample(num_samples=3)
        assert log_probs.gather(1, draws).isfinite().all()


@pytest.mark.parametrize("head", ["softmax", "cache:published", "softmax+cpr:3,8+mi", "mos:3"])
def test_chunks_change_nothing(head: str) -> None:
    model = moved(with_head("gpt2", head, dtype=torch.float64).eval())
    given = on_card(given_to(model))
    with nw.score_memory(float("inf")):
        whole = learned(model, given)
    with nw.score_memory(1e-3):
        error, name = furthest(learned(model, given), whole)
    assert error < 1e-11, name


# -- The output layer of SmolLM2-135M (576 x 49,152) under three layers of a Llama.

WIDE = {"hidden_size": 576, "vocab_size": 49_152, "num_attention_heads": 9, "num_key_value_heads": 3}
TOY = {"hidden_size": 24, "vocab_size": 300, "num_attention_heads": 3, "num_key_value_heads": 1}


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("head", ["softmax", "softmax+cpr:20,100+mi", "mos:3", "cache:published", "pg", "f2"])
def test_real_vocabulary(head: str, dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = WIDE if DEVICE.type == "cuda" else TOY
    wide = 2 * sizes["hidden_size"]
    config = LlamaConfig(**sizes, intermediate_size=wide, num_hidden_layers=3, tie_word_embeddings=True)
    config.pad_token_id = config.eos_token_id = None
    spec: Any = head
    if head == "f2":
        counts = (10**6 / np.arange(1, sizes["vocab_size"] + 1)).astype(np.int64)
        TokenCounts(counts, None, "Zipf's law").save(tmp_path / "counts.npz")
        spec = {"head": "f2", "counts": str(tmp_path / "counts.npz"), "prior": None}
    model = nw.attach(LlamaForCausalLM(config), spec).double().eval()
    ids = torch.randint(1, sizes["vocab_size"] // 4, (2, 64)).repeat(1, 2)
    assert_as_in_float64(model, {"input_ids": ids, "labels": ids}, dtype)
