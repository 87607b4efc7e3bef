"""One pass against many: the same numbers at every temperature and weight, in all forms and kinds of models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.heads.calibration import CopyCalibration, best_weight
from nextword.inference.scoring.calibrate import read
from nextword.inference.scoring.likelihood import TokenPair, target_log_probs
from nextword.model.training_modes import inference_mode_of
from tests.helpers.word_models import family_model

CHOICES = [(temperature, weight) for temperature in (0.5, 1.0, 2.0, 2.9, 7.3) for weight in (None, 0.0, 0.05, 0.6)]


def pairs(seed: int = 0) -> list[TokenPair]:
    """Targets of tokens that come again, after contexts of different lengths."""
    drawn = np.random.default_rng(seed)
    rows = [drawn.integers(4, 12, size).tolist() for size in (14, 9, 11, 3)]
    return [TokenPair(row[: len(row) // 2], row[len(row) // 2 :], 0) for row in rows]


def stretched(model: Any, length: float) -> Any:
    """With longer states before the output layer, as pretrained models have them."""
    with torch.no_grad():
        model.transformer.ln_f.weight.mul_(length)
    return model


def nats(model: Any, asked: list[TokenPair]) -> float:
    with inference_mode_of(model):
        return -float(torch.cat(target_log_probs(model, asked, 3)).mean())


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_numbers_are_those_of_a_pass_for_each_setting(family: str) -> None:
    model = nw.attach(family_model(family), "cache:temperature=0.3,weight=0.9")
    asked = pairs()
    calibration = read(model, lambda: target_log_probs(model, asked, 3)).calibration
    assert isinstance(calibration, CopyCalibration)
    known = calibration.temperatures
    tried = [one for one in CHOICES if known[0] <= one[0] <= known[-1]]
    assert len(tried) >= 16
    for temperature, weight in tried:
        model.configure_head(temperature=temperature, weight=weight)
        one_pass = -float(calibration.log_probs(temperature, weight).mean())
        assert one_pass == pytest.approx(nats(model, asked), abs=1e-6), (temperature, weight)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1.0, 30.0])
def test_what_is_chosen_has_the_nats_that_it_says_and_none_around_it_has_less(length: float) -> None:
    model, asked = nw.attach(stretched(family_model("gpt2"), length), "cache"), pairs()
    calibration = read(model, lambda: target_log_probs(model, asked, 3)).calibration
    best = calibration.optimum()
    model.configure_head(**best.settings)
    lowest = nats(model, asked)
    assert -best.log_probs.mean() == pytest.approx(lowest, abs=1e-6)
    assert lowest <= min(tried for _, tried in best.curve) + 1e-6
    temperature = best.settings["temperature"]
    for factor in (0.8, 0.97, 1.03, 1.25):
        for weight in (None, 0.02, 0.1, 0.5):
            model.configure_head(temperature=temperature * factor, weight=weight)
            assert lowest <= nats(model, asked) + 1e-6


def test_it_does_not_depend_on_how_the_head_is_set() -> None:
    model, asked = nw.attach(family_model("gpt2"), "cache"), pairs()
    first = read(model, lambda: target_log_probs(model, asked, 3)).calibration.optimum()
    model.configure_head(temperature=9.0, weight=0.7)
    again = read(model, lambda: target_log_probs(model, asked, 3)).calibration.optimum()
    assert again.settings == first.settings
    assert again.curve == first.curve


def test_a_temperature_that_makes_no_difference_is_refused() -> None:
    model, asked = nw.attach(family_model("gpt2"), "cache"), pairs()
    calibration: Any = read(model, lambda: target_log_probs(model, asked, 3)).calibration
    with pytest.raises(ValueError, match="temperature: must be from"):
        calibration.log_probs(1e9, None)
    with pytest.raises(ValueError, match=r"texts:.*least one token"):
        model.next_word_head.calibration().optimum()


def test_the_best_weight_is_where_the_slope_is_zero() -> None:
    drawn = np.random.default_rng(0)
    alone, copied = np.log(drawn.random((2, 200)))
    copied[:60] = -np.inf
    best = best_weight(alone, copied)

    def likelihood(weight: float) -> float:
        return float(np.logaddexp(alone + np.log1p(-weight), copied + np.log(weight)).sum())

    assert 0 < best < 1
    assert likelihood(best) >= max(likelihood(one) for one in np.linspace(0.001, 0.999, 999)) - 1e-9
    assert best_weight(alone, alone - 1.0) == 0.0
    assert best_weight(alone, alone + 1.0) == 1.0
    assert best_weight(np.array([-2000.0, -1.0]), np.array([-1.0, -2000.0])) == pytest.approx(0.5)
