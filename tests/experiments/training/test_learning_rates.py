from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import nextword as nw
from nextword.experiments.training.learning_rates import GroupedTrainer, parameter_groups
from nextword.experiments.training.one_training import fit
from tests.helpers.tiny_trainings import killed_at, settings, tiny_gpt2, weights

WTE, MLP = "transformer.wte.weight", "transformer.h.0.mlp.c_fc.weight"


def test_every_parameter_is_in_one_group():
    model = nw.attach(tiny_gpt2(), "mos:2")
    groups = parameter_groups(model)
    assert list(groups) == ["output_embeddings", "head", "backbone"]
    assert sorted(id(one) for group in groups.values() for one in group) == sorted(map(id, model.parameters()))
    assert groups["output_embeddings"] == [model.backbone.transformer.wte.weight]
    assert set(groups["head"]) == set(model.next_word_head.parameters())


def test_each_part_moves_at_its_own_rate(rows, tmp_path):
    model = nw.attach(tiny_gpt2(tie=False), "mos:2")
    before = weights(model)
    rates = {"backbone": 1e-6, "head": 1e-3}
    fit(model, rows, settings(steps=1, learning_rates=rates, scheduler="constant"), seed=1, folder=tmp_path)
    moved = {name: float((value - before[name]).abs().max()) for name, value in model.state_dict().items()}
    # the first step of Adam moves a weight by its learning rate
    assert moved[f"backbone.{MLP}"] == pytest.approx(1e-6, rel=0.2)
    assert moved["backbone.lm_head.weight"] == pytest.approx(1e-2, rel=1e-3)  # the common rate
    of_head = [value for name, value in moved.items() if name.startswith("next_word_head.") and value]
    assert of_head
    assert all(value <= 1e-3 * 1.001 for value in of_head)
    assert max(of_head) == pytest.approx(1e-3, rel=1e-3)


def optimizer_of(model, asked, rates, tmp_path):
    from transformers import TrainingArguments

    arguments = TrainingArguments(output_dir=str(tmp_path), weight_decay=asked.weight_decay, report_to=[])
    return GroupedTrainer(rates, model=model, args=arguments).create_optimizer()


def test_the_optimiser_has_no_frozen_parameter_and_decays_what_trainer_decays(tmp_path):
    model, asked = tiny_gpt2(tie=False), settings(weight_decay=0.1)
    model.transformer.h[0].attn.requires_grad_(False)
    plain = optimizer_of(model, asked, {}, tmp_path).param_groups
    split = optimizer_of(model, asked, {"output_embeddings": 1.0}, tmp_path).param_groups

    def decayed(groups):
        return {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}

    assert decayed(split) == decayed(plain)
    assert set(decayed(split)) == {id(one) for one in model.parameters() if one.requires_grad}
    assert sorted(decayed(split).values())[0] == 0.0
    assert [id(one) for group in split if group["lr"] == 1.0 for one in group["params"]] == [id(model.lm_head.weight)]


@pytest.mark.slow
def test_rates_go_on_where_they_were(rows, tmp_path):
    asked = settings(save_every=2, learning_rates={"output_embeddings": 1e-4, "backbone": 1e-3}, weight_decay=0.1)
    whole, broken, resumed = (tiny_gpt2() for _ in range(3))
    fit(whole, rows, asked, seed=1, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(broken, rows, asked, seed=1, folder=tmp_path / "cut", progress=killed_at(5))
    fit(resumed, rows, asked, seed=1, folder=tmp_path / "cut")
    assert all(torch.equal(resumed.state_dict()[name], value) for name, value in whole.state_dict().items())


def test_other_rates_are_another_training(rows, tmp_path):
    fit(tiny_gpt2(), rows, settings(steps=1, learning_rates={"backbone": 1e-3}), seed=1, folder=tmp_path)
    with pytest.raises(ValueError, match=r"\(settings\.learning_rates\.backbone: 0\.001 there, 0\.002 asked"):
        fit(tiny_gpt2(), rows, settings(steps=1, learning_rates={"backbone": 2e-3}), seed=1, folder=tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"learning_rates": {"heads": 0.1}},
            "learning_rates.heads: is not a group of this model; it trains output_emb",
        ),
        (
            {"learning_rates": {"output_embeddings": 0.1}, "freeze_output_embeddings": True},
            "learning_rates.output_embeddings: is not trained, all of it is frozen; it trains backbone",
        ),
    ],
)
def test_a_rate_for_what_is_not_trained_is_refused(rows, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        fit(tiny_gpt2(), rows, settings(**changes), seed=1, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sharded_models_compute_in_bf16_where_that_is_asked_for():
    arguments = SimpleNamespace(fsdp=["full_shard"], bf16=True, device=torch.device("cpu"))
    with GroupedTrainer.compute_loss_context_manager(SimpleNamespace(args=arguments)):
        assert torch.get_autocast_dtype("cpu") is torch.bfloat16
        assert torch.is_autocast_enabled("cpu")
