from __future__ import annotations

import importlib.util

import pytest
import torch

import nextword as nw
from nextword.experiments.training.one_training import fit
from nextword.experiments.training.settings import LoraSettings
from nextword.experiments.training.trainable import lora_adapters
from tests.helpers.tiny_trainings import killed_at, settings, tiny_gpt2, weights

IDS = torch.tensor([[1, 2, 3, 4]])


@pytest.fixture(autouse=True)
def peft():
    return pytest.importorskip("peft")


def lora(**changes):
    return settings(lora=LoraSettings(rank=2, alpha=8.0, **changes), save_every=2)


def test_adapters_are_trained_and_merged_into_a_plain_model(rows, tmp_path):
    model = nw.attach(tiny_gpt2(), "mos:2")
    before = weights(model)
    outcome = fit(model, rows, lora(), seed=1, folder=tmp_path / "run")
    after = weights(model)
    assert list(after) == list(before)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    layers = {
        f"backbone.transformer.h.0.{name}.weight" for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    }
    assert {name for name in changed if name.startswith("backbone.")} == layers
    assert any(name.startswith("next_word_head.") for name in changed)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not hasattr(model.backbone, "peft_config")
    head = sum(parameter.numel() for parameter in model.next_word_head.parameters())
    adapters = 2 * (16 + 48) + 2 * (16 + 16) + 2 * (16 + 64) + 2 * (64 + 16)
    assert outcome.cost.trained_parameters == head + adapters
    assert outcome.cost.parameters == sum(parameter.numel() for parameter in model.parameters())
    for name in layers:  # the change has the adapters' rank
        values = torch.linalg.svdvals((after[name] - before[name]).double())
        assert values[1] > 1e-6
        assert values[2] < 1e-6 * values[0]
    model.save_pretrained(tmp_path / "saved")
    with torch.no_grad():
        assert torch.equal(nw.load(tmp_path / "saved").eval()(IDS).logits, model.eval()(IDS).logits)


def test_the_merged_model_is_the_adapted_one():
    model = tiny_gpt2().eval()
    with torch.no_grad():
        untouched = model(IDS).logits
        with lora_adapters(model, LoraSettings(rank=2), seed=0):
            assert torch.equal(model.eval()(IDS).logits, untouched)
            for name, parameter in model.named_parameters():
                assert parameter.requires_grad == (".lora_" in name)
                if parameter.requires_grad:
                    parameter += 0.1
            inside = model.eval()(IDS).logits
        torch.testing.assert_close(model(IDS).logits, inside, rtol=0, atol=1e-5)
        assert float((inside - untouched).abs().max()) > 1e-2


def test_output_embeddings_of_their_own_are_trained_in_full(rows, tmp_path):
    model = tiny_gpt2(tie=False)
    before = weights(model)
    fit(model, rows, lora(), seed=1, folder=tmp_path)
    assert not torch.equal(before["lm_head.weight"], model.lm_head.weight)
    assert torch.equal(before["transformer.wte.weight"], model.transformer.wte.weight)


def test_a_resumed_training_gives_the_same_weights(rows, tmp_path):
    whole, broken, resumed = (nw.attach(tiny_gpt2(), "mos:2") for _ in range(3))
    for model in (broken, resumed):
        model.load_state_dict(whole.state_dict())
    fit(whole, rows, lora(dropout=0.2), seed=1, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(broken, rows, lora(dropout=0.2), seed=1, folder=tmp_path / "cut", progress=killed_at(5))
    assert list(broken.state_dict()) == list(whole.state_dict())
    fit(resumed, rows, lora(dropout=0.2), seed=1, folder=tmp_path / "cut")
    assert all(torch.equal(resumed.state_dict()[name], value) for name, value in whole.state_dict().items())


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["c_fcc"], "training.lora.targets: .*c_fcc.*not found"),
        (["c_fc", "lm_head"], "must not be input or output embeddings"),
        (["wte"], "must not be input or output embeddings"),
    ],
)
def test_layers_that_take_no_adapter(rows, tmp_path, targets, message):
    model = tiny_gpt2()
    names = list(model.state_dict())
    with pytest.raises(ValueError, match=message):
        fit(model, rows, lora(targets=targets), seed=1, folder=tmp_path / "out")
    assert list(model.state_dict()) == names
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not (tmp_path / "out").exists()


def test_without_peft_it_is_asked_for(rows, tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "peft" else real(name, *rest))
    with pytest.raises(ValueError, match=r"training\.lora:.*installed"):
        fit(tiny_gpt2(), rows, lora(), seed=1, folder=tmp_path / "out")
