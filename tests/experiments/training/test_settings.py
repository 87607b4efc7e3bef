from __future__ import annotations

import pytest

from nextword.experiments.training.settings import TrainingSettings, merged
from nextword.settings.config import validated


def test_an_override_of_steps_replaces_default_epochs():
    settings = merged({"epochs": 3.0, "batch_size": 4, "learning_rate": 1e-3}, {"steps": 7}, "training")
    assert (settings.steps, settings.epochs, settings.batch_size, settings.learning_rate) == (7, None, 4, 1e-3)


def test_an_override_of_one_warmup_replaces_the_other():
    settings = merged({"steps": 10, "warmup_steps": 5}, {"warmup_ratio": 0.1}, "training")
    assert (settings.warmup_steps, settings.warmup_ratio) == (0, 0.1)


@pytest.mark.parametrize("length", [{}, {"steps": 3, "epochs": 1.0}])
def test_exactly_one_length(length):
    with pytest.raises(ValueError, match=r"training:.*either steps"):
        validated(TrainingSettings, length, "training")


def test_an_unknown_key_is_named_with_the_nearest_known_one():
    with pytest.raises(ValueError, match=r"training\.learnin_rate:.*'learning_rate'\?"):
        merged({"steps": 3}, {"learnin_rate": 0.1}, "training")


def test_a_wrong_value_is_named():
    with pytest.raises(ValueError, match=r"^training\.batch_size:.*\(0 given"):
        merged({"steps": 3}, {"batch_size": 0}, "training")


def test_all_problems_are_named_at_once():
    with pytest.raises(ValueError, match=r"(?s)training\.batch_size.*training\.bf16"):
        merged({"steps": 3}, {"batch_size": "many", "bf16": 2}, "training")


def test_learning_rates_of_parts_are_overridden_part_by_part():
    common = {"steps": 1, "learning_rates": {"conditioner": 2e-3, "head": 1e-3}}
    assert merged(common, {"learning_rates": {"head": 1e-4}}, "training").learning_rates == {
        "conditioner": 2e-3, "head": 1e-4,
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"training\.learning_rates"):
        merged(common, {"learning_rates": 3}, "training")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bf16": True, "fp16": True}, "bf16, fp16: must not both be given"),
        ({"patience": 3}, "training.patience: must be given together with evaluate_every"),
        ({"keep_best": True, "evaluate_every": 5, "save_every": None}, "training.keep_best: .*give save_every"),
        ({"trains": "head", "lora": {}}, "training.trains: must not be .*lora"),
    ],
)
def test_settings_that_do_not_go_together(changes, message):
    with pytest.raises(ValueError, match=message):
        merged({"steps": 5}, changes, "training")


def test_a_model_in_shares_has_no_adapters():
    with pytest.raises(ValueError, match="fsdp: must be given without lora"):
        merged({"steps": 3}, {"fsdp": True, "lora": {"rank": 2}}, "training")
    with pytest.raises(ValueError, match="shard_vocabulary: must be given without fsdp"):
        merged({"steps": 3}, {"fsdp": True, "shard_vocabulary": True}, "training")
    with pytest.raises(ValueError, match="shard_vocabulary"):
        merged({"steps": 3}, {"shard_vocabulary": True, "keep_best": True, "evaluate_every": 1}, "training")


def test_a_divided_vocabulary_writes_no_checkpoints() -> None:
    assert merged({"steps": 3}, {"shard_vocabulary": True}, "training").checkpoint_every is None
    assert merged({"steps": 3}, {}, "training").checkpoint_every == 200
