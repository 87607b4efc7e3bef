"""How far a head's answers move with what the backbone gives it."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.checking.probe_texts import ProbeWords
from nextword.checking.readers import Reader, magnification


@pytest.fixture(scope="module")
def cached() -> nw.NextWordModel:
    """A cache at temperature 1 on states of norm 160, which compares them in hundreds of nats."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 64}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=60, num_attention_heads=4, num_key_value_heads=2, **sizes)).eval()
    model.model.norm.weight.data.fill_(20.0)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, 0.05)
    return nw.attach(model, "cache:published")


def test_a_head_of_the_scores_alone_magnifies_nothing(cached: nw.NextWordModel) -> None:
    batch = ProbeWords.of_model(cached, 0).random_sample(17).batch()
    with torch.no_grad():
        assert magnification(Reader(cached, "lm_only"), batch) == pytest.approx(1.0, abs=1e-3)


def test_similarities_of_long_states_magnify(cached: nw.NextWordModel) -> None:
    batch = ProbeWords.of_model(cached, 0).random_sample(17).batch()
    with torch.no_grad():
        assert magnification(Reader(cached, "cache_only"), batch) > 2.0


@pytest.mark.slow
def test_what_similarities_magnify_is_no_fault(cached: nw.NextWordModel) -> None:
    nw.check(cached, lengths=[17]).raise_if_failed()


def test_nothing_is_left_on_the_model(cached: nw.NextWordModel) -> None:
    reader, batch = Reader(cached, "cache_only"), ProbeWords.of_model(cached, 0).random_sample(6).batch()
    with torch.no_grad():
        before = reader.log_probs(batch)
        magnification(reader, batch)
        assert torch.equal(Reader(cached, "cache_only").log_probs(batch), before)
    assert not cached.backbone.get_input_embeddings()._forward_hooks
