"""Data that are read many times: it is said, and the best weights are kept."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.train_config import configured
from nextword.experiments.training.train_model import MANY_TIMES, DataUse, train
from tests.helpers.killed_trainings import SMALL, sentences


def test_data_read_a_few_times_are_trained_on_as_asked() -> None:
    settings = TrainingSettings(steps=40, batch_size=8)
    use = DataUse.of(80, settings)
    assert use.times == MANY_TIMES
    assert use.watched(settings, {}) == settings
    assert use.sentence([], 5, settings) == "The training data is read 4.0 times."
    some = DataUse.of(8000, settings)
    assert some.sentence([], 5, settings) == "4 % of the training data is read."


def test_data_read_many_times_are_validated_ten_times_and_the_best_weights_are_kept() -> None:
    settings = TrainingSettings(steps=100, batch_size=4, gradient_accumulation_steps=2)
    use = DataUse.of(80, settings)
    watched = use.watched(settings, {})
    assert (use.times, watched.evaluate_every, watched.keep_best) == (10.0, 10, True)
    rows = [{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}] * 80
    said = use.sentence(rows, 12_345, watched)
    assert "read 10.0 times: 160 tokens to predict, 12,345 parameters to train" in said
    assert "weights of the lowest validation loss are kept" in said
    assert said.endswith("training.steps=40.")


def test_what_was_asked_for_stays() -> None:
    often = TrainingSettings(epochs=20, evaluate_every=7)
    assert DataUse.of(80, often).watched(often, {"evaluate_every": 7}) == often
    last = TrainingSettings(epochs=20)
    assert DataUse.of(80, last).watched(last, {"keep_best": False}).keep_best is False
    nothing_saved = TrainingSettings(epochs=20, save_every=None)
    assert DataUse.of(80, nothing_saved).watched(nothing_saved, {}).keep_best is False
    assert DataUse.of(80, last).sentence([{"labels": [1]}], 5, last).endswith("training.epochs=4.")


@pytest.mark.slow
def test_a_training_that_learns_a_text_by_heart_says_so_and_ends_with_its_best_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = tmp_path / "text.txt"
    other_words = [line[::-1] for line in sentences(10)]  # validation and test part: training makes them less likely
    text.write_text("\n".join([*sentences(90), *other_words]), encoding="utf-8")
    config = configured(
        {"head": "softmax", "model": "small", "data": str(text)},
        [*SMALL, "task.start.n_embd=32", "task.start.dropout=0", "training.steps=100", "training.learning_rate=5e-3"],
    )
    with caplog.at_level(logging.WARNING, "nextword"):
        results = train(config, tmp_path / "out")
    lowest = min(results.validation_curve, key=lambda point: point.loss)
    assert results.best_step == lowest.step < results.steps == 100
    assert results.training["evaluate_every"] == 10
    said = [record.getMessage() for record in caplog.records if record.name.startswith("nextword")]
    assert len(said) == 2  # while it trains, and at its end
    assert f"The weights of step {lowest.step} are kept" in said[0]
    assert f"This is the model of step {lowest.step}" in said[1]


def test_a_validation_part_too_short_for_it_stops_nothing(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences(40)), encoding="utf-8")
    config = configured(
        {"head": "softmax", "model": "small", "data": str(text)}, [*SMALL, "task.block=64", "training.steps=10"]
    )
    assert train(config, tmp_path / "out").validation_curve == []
