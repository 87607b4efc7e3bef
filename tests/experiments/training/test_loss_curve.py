from __future__ import annotations

import pytest
import torch

from nextword.experiments.training.one_training import fit
from tests.helpers.tiny_trainings import killed_at, settings, tiny_gpt2, weights

OVERFITTED = {"steps": 40, "evaluate_every": 2, "save_every": 3, "learning_rate": 0.05, "scheduler": "constant"}
"""Of few rows, so that the validation loss soon rises."""


@pytest.fixture
def few(rows):
    """Rows to train on, and others to validate on."""
    return rows.select(range(6)), rows.select(range(12, 24))


@pytest.mark.slow
def test_the_best_weights_are_kept(few, tmp_path):
    training, validation = few
    model = tiny_gpt2()
    outcome = fit(
        model, training, settings(**OVERFITTED, keep_best=True), seed=1, folder=tmp_path / "best", validation=validation
    )
    lowest = min(outcome.validation_curve, key=lambda point: point.loss)
    assert outcome.best_step == lowest.step < 40
    shorter = tiny_gpt2()
    fit(shorter, training, settings(**{**OVERFITTED, "steps": lowest.step}), seed=1, folder=tmp_path / "shorter",
          validation=validation)  # fmt: skip
    for name, value in weights(shorter).items():
        assert torch.equal(model.state_dict()[name], value), name


def test_training_stops_when_the_validation_loss_falls_no_more(few, tmp_path):
    training, validation = few
    asked = settings(**OVERFITTED, patience=3)
    outcome = fit(tiny_gpt2(), training, asked, seed=1, folder=tmp_path, validation=validation)
    losses = [point.loss for point in outcome.validation_curve]
    lowest = losses.index(min(losses))
    assert len(losses) == lowest + 4 < 20


def test_a_small_improvement_is_none(few, tmp_path):
    training, validation = few
    asked = settings(**OVERFITTED, patience=3, min_improvement=100.0)
    outcome = fit(tiny_gpt2(), training, asked, seed=1, folder=tmp_path, validation=validation)
    assert len(outcome.validation_curve) == 4


def test_early_stopping_and_the_best_weights_outlive_an_interruption(few, tmp_path):
    training, validation = few
    asked = settings(**OVERFITTED, patience=3, keep_best=True)
    whole = tiny_gpt2()
    expected = fit(whole, training, asked, seed=1, folder=tmp_path / "whole", validation=validation)
    last = expected.validation_curve[-1].step

    def killed(fraction):
        if round(fraction * 40) == last - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(tiny_gpt2(), training, asked, seed=1, folder=tmp_path / "a", validation=validation, progress=killed)
    (tmp_path / "a").rename(tmp_path / "moved")
    for _ in range(2):  # the second time it goes on from the checkpoint of its end
        model = tiny_gpt2()
        outcome = fit(model, training, asked, seed=1, folder=tmp_path / "moved", validation=validation)
        assert outcome.validation_curve == expected.validation_curve
        assert outcome.best_step == expected.best_step
        for name, value in weights(whole).items():
            assert torch.equal(model.state_dict()[name], value), name


@pytest.mark.few(1)
@pytest.mark.parametrize("steps", [4, 6])
def test_a_training_that_is_over_is_not_trained_on(rows, tmp_path, steps):
    asked = settings(steps=steps, scheduler="constant")  # an epoch has 6
    whole = tiny_gpt2()
    expected = fit(whole, rows, asked, seed=1, folder=tmp_path)
    again, seen = tiny_gpt2(), []
    assert fit(again, rows, asked, seed=1, folder=tmp_path, progress=seen.append).curve == expected.curve
    assert not seen
    for name, value in weights(whole).items():
        assert torch.equal(again.state_dict()[name], value), name


@pytest.mark.slow
@pytest.mark.parametrize("killed", [3, 5])
def test_constant_rates_and_dropout_are_gone_on_from_exactly(rows, tmp_path, killed):
    asked = settings(scheduler="constant", save_every=2, gradient_accumulation_steps=2)
    whole, resumed = tiny_gpt2(), tiny_gpt2()
    fit(whole, rows, asked, seed=1, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(tiny_gpt2(), rows, asked, seed=1, folder=tmp_path / "killed", progress=killed_at(killed))
    fit(resumed, rows, asked, seed=1, folder=tmp_path / "killed")
    for name, value in weights(whole).items():
        assert torch.equal(resumed.state_dict()[name], value), name
