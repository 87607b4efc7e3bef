from __future__ import annotations

import json
import logging
import statistics
import time

import pytest
import torch
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, set_seed

import nextword as nw
from nextword.experiments.training.collator import RightPadding
from nextword.experiments.training.loss_curve import DivergedError
from nextword.experiments.training.one_training import fit
from tests.helpers.tiny_trainings import VOCABULARY, killed_at, settings, tiny_gpt2, weights


def test_the_outcome_has_curve_cost_and_progress(rows, tmp_path):
    model, seen = tiny_gpt2(), []
    outcome = fit(model, rows, settings(log_every=4), seed=1, folder=tmp_path, progress=seen.append)
    assert seen == pytest.approx([step / 6 for step in range(1, 7)])
    assert [point.step for point in outcome.curve] == [1, 4, 6]
    assert outcome.curve[-1].loss < outcome.curve[0].loss
    total = sum(parameter.numel() for parameter in model.parameters())
    assert (outcome.cost.parameters, outcome.cost.trained_parameters) == (total, total)
    assert 0 < outcome.cost.ms_per_step < 1000 * outcome.cost.train_seconds


@pytest.mark.parametrize("accumulated", [1, 4])
def test_the_steps_of_a_fraction_of_an_epoch_are_known_before(rows, tmp_path, accumulated):
    asked = settings(steps=None, epochs=0.75, gradient_accumulation_steps=accumulated)
    outcome = fit(tiny_gpt2(), rows, asked, seed=1, folder=tmp_path)
    assert outcome.curve[-1].step == asked.steps_over(len(rows))


@pytest.mark.slow
@pytest.mark.skipif(torch.accelerator.is_available(), reason="the CPU's way of measuring")
def test_cpu_memory_is_at_least_weights_gradients_and_adam(rows, tmp_path):
    model = tiny_gpt2()
    outcome = fit(model, rows, settings(), seed=1, folder=tmp_path / "small")
    weights_mib = 4 * outcome.cost.parameters / 2**20
    assert outcome.cost.peak_memory_mib > 4 * weights_mib
    longer = Dataset.from_dict({key: [[1 + i % 20 for i in range(16)]] * 64 for key in ("input_ids", "labels")})
    more = fit(tiny_gpt2(), longer, settings(batch_size=64), seed=1, folder=tmp_path / "large")
    # 64 x 16 float32 logits over the vocabulary, and their gradient, are in there
    assert more.cost.peak_memory_mib > outcome.cost.peak_memory_mib + 2 * 64 * 16 * VOCABULARY * 4 / 2**20


@pytest.mark.slow
def test_a_killed_training_goes_on_from_its_checkpoint_to_the_same_weights(rows, tmp_path):
    whole, broken = tiny_gpt2(), tiny_gpt2()
    expected = fit(whole, rows, settings(save_every=2), seed=1, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(broken, rows, settings(save_every=2), seed=1, folder=tmp_path / "killed", progress=killed_at(5))
    resumed, seen = tiny_gpt2(), []
    outcome = fit(resumed, rows, settings(save_every=2), seed=1, folder=tmp_path / "killed", progress=seen.append)
    assert seen == pytest.approx([5 / 6, 1.0])
    assert outcome.curve == expected.curve
    for name, value in weights(whole).items():
        assert torch.equal(resumed.state_dict()[name], value), name


@pytest.mark.slow
def test_time_before_the_interruption_is_counted(rows, tmp_path):

    def slow_then_killed(fraction):
        time.sleep(0.2)
        if round(fraction * 6) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(tiny_gpt2(), rows, settings(save_every=4), seed=1, folder=tmp_path, progress=slow_then_killed)
    outcome = fit(tiny_gpt2(), rows, settings(save_every=4), seed=1, folder=tmp_path)
    assert outcome.cost.train_seconds > 0.6  # the three pauses before the checkpoint at step 4 was written


@pytest.mark.slow
@pytest.mark.parametrize("killed", [4, 5])
@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_point_of_the_curve_is_the_mean_of_all_its_steps_whenever_it_was_interrupted(
    rows, tmp_path, killed, accumulated
):
    asked = settings(save_every=2, log_every=3, gradient_accumulation_steps=accumulated)
    expected = fit(tiny_gpt2(), rows, asked, seed=1, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(tiny_gpt2(), rows, asked, seed=1, folder=tmp_path / "killed", progress=killed_at(killed))
    outcome = fit(tiny_gpt2(), rows, asked, seed=1, folder=tmp_path / "killed")
    assert [point.step for point in expected.curve] == [1, 3, 6]
    assert outcome.curve == expected.curve


@pytest.mark.slow
def test_time_and_memory_of_all_steps_are_reported_after_an_interruption(rows, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny_gpt2(), rows, settings(save_every=5), seed=1, folder=tmp_path, progress=killed_at(6))
    before = json.loads((tmp_path / "checkpoint-5" / "trainer_state.json").read_text())["stateful_callbacks"]
    outcome = fit(tiny_gpt2(), rows, settings(save_every=5), seed=1, folder=tmp_path)
    # One step was left, too few to warm up and to measure memory in.
    seconds = before["StepClock"]["attributes"]["seconds"]
    assert outcome.cost.ms_per_step == 1000 * statistics.median(seconds)
    assert outcome.cost.peak_memory_mib == before["PeakMemory"]["attributes"]["mib"]


@pytest.mark.slow
def test_a_checkpoint_of_an_earlier_version_is_gone_on_from(rows, tmp_path):
    expected = fit(tiny_gpt2(), rows, settings(save_every=2), seed=1, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(tiny_gpt2(), rows, settings(save_every=2), seed=1, folder=tmp_path / "killed", progress=killed_at(3))
    path = tmp_path / "killed" / "checkpoint-2" / "trainer_state.json"
    state = json.loads(path.read_text())
    clock = {"args": {}, "attributes": {"total": 1.5}}
    state["stateful_callbacks"] = {"StepClock": clock, "TrainerControl": state["stateful_callbacks"]["TrainerControl"]}
    path.write_text(json.dumps(state))
    outcome = fit(tiny_gpt2(), rows, settings(save_every=2), seed=1, folder=tmp_path / "killed")
    assert outcome.curve == expected.curve  # it was saved at a point of the curve
    assert outcome.cost.train_seconds > 1.5


@pytest.mark.slow
def test_a_training_that_diverges_ends_at_that_step(rows, tmp_path):
    with pytest.raises(DivergedError, match=r"diverged at step 2: the loss is (nan|inf)"):
        fit(tiny_gpt2(), rows, settings(learning_rate=1e30), seed=1, folder=tmp_path / "diverged")
    fit(tiny_gpt2(), rows, settings(), seed=1, folder=tmp_path / "next")  # torch's profiler is free again


@pytest.mark.slow
def test_a_half_written_checkpoint_is_skipped(rows, tmp_path, caplog):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny_gpt2(), rows, settings(save_every=2), seed=1, folder=tmp_path, progress=killed_at(5))
    weights_file = tmp_path / "checkpoint-4" / "model.safetensors"
    weights_file.write_bytes(weights_file.read_bytes()[:-100])
    seen = []
    with caplog.at_level(logging.WARNING):
        fit(tiny_gpt2(), rows, settings(save_every=2), seed=1, folder=tmp_path, progress=seen.append)
    assert seen == pytest.approx([3 / 6, 4 / 6, 5 / 6, 1.0])
    assert "checkpoint-4 is incomplete" in caplog.text


def test_checkpoints_of_another_training_are_refused(rows, tmp_path):
    fit(tiny_gpt2(), rows, settings(steps=1), seed=1, folder=tmp_path)
    with pytest.raises(ValueError, match="steps: 1 there, 2"):
        fit(tiny_gpt2(), rows, settings(steps=2), seed=1, folder=tmp_path)
    with pytest.raises(ValueError, match="seed: 1 there, 2 asked"):
        fit(tiny_gpt2(), rows, settings(steps=1), seed=2, folder=tmp_path)


@pytest.mark.parametrize("tied", [True, False])
def test_frozen_output_embeddings_stay_and_are_free_again_afterwards(rows, tmp_path, tied):
    model = tiny_gpt2(tied)
    before = weights(model)
    outcome = fit(model, rows, settings(freeze_output_embeddings=True), seed=1, folder=tmp_path)
    after = weights(model)
    assert torch.equal(before["lm_head.weight"], after["lm_head.weight"])
    assert torch.equal(before["transformer.wte.weight"], after["transformer.wte.weight"]) == tied
    assert not torch.equal(before["transformer.h.0.mlp.c_fc.weight"], after["transformer.h.0.mlp.c_fc.weight"])
    assert outcome.cost.parameters - outcome.cost.trained_parameters == VOCABULARY * 16
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_validation_losses_are_reported(rows, tmp_path):
    outcome = fit(tiny_gpt2(), rows, settings(evaluate_every=3), seed=1, folder=tmp_path, validation=rows)
    assert [point.step for point in outcome.validation_curve] == [3, 6]


def test_validation_data_is_asked_for(rows, tmp_path):
    with pytest.raises(ValueError, match="evaluate_every: needs validation data"):
        fit(tiny_gpt2(), rows, settings(evaluate_every=3), seed=1, folder=tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"input_ids": [[1]], "label": [[1]]}, "needs columns input_ids and labels, has input_ids, label"),
        ({"input_ids": [], "labels": []}, "training data is empty"),
    ],
)
def test_data_that_cannot_be_trained_on(data, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        fit(tiny_gpt2(), Dataset.from_dict(data), settings(), seed=1, folder=tmp_path)


@pytest.mark.slow
def test_batches_depend_on_the_seed_and_not_on_the_model(rows, tmp_path, monkeypatch):
    def batches(name, seed, dropout_layers):
        seen = []

        class Recording(RightPadding):
            def __call__(self, examples):
                seen.append([example["input_ids"] for example in examples])
                return super().__call__(examples)

        monkeypatch.setattr("nextword.experiments.training.one_training.RightPadding", Recording)
        set_seed(dropout_layers)
        config = GPT2Config(
            vocab_size=VOCABULARY, n_positions=16, n_embd=16, n_layer=dropout_layers, n_head=2, bos_token_id=0
        )
        fit(GPT2LMHeadModel(config), rows, settings(steps=15), seed=seed, folder=tmp_path / name)
        return seen

    first = batches("a", 1, dropout_layers=1)
    assert batches("b", 1, dropout_layers=2) == first  # over three epochs, with another use of random numbers
    assert batches("c", 2, dropout_layers=1) != first


def test_the_trainer_says_nothing(rows, tmp_path, capfd):
    fit(tiny_gpt2(), rows, settings(), seed=1, folder=tmp_path)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "USDT" not in captured.err


@pytest.mark.parametrize("attached", [False, True])
def test_the_configuration_is_as_before(rows, tmp_path, attached):
    model = nw.attach(tiny_gpt2(), "cache") if attached else tiny_gpt2()
    before = model.config.to_dict()
    fit(model, rows, settings(steps=1, save_every=None), seed=1, folder=tmp_path)
    assert model.config.use_cache is True
    assert model.config.to_dict() == before
