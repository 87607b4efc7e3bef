"""Defaults of training follow the start: what each task trains with from each kind of start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nextword.experiments.comparison.comparison_settings import (
    CompareConfig,
    built_in,
    common_settings,
    configured,
    read,
    stage_settings,
)
from nextword.experiments.comparison.method import Method
from nextword.experiments.tasks import registry
from nextword.experiments.training.settings import TrainingSettings, merged

SMALL = {
    "ambiguous": {"steps": 600, "batch_size": 32, "learning_rate": 6e-3, "freeze_output_embeddings": True},
    "continue": {"steps": 200, "batch_size": 4, "learning_rate": 1e-3},
    "expand": {"epochs": 10.0, "learning_rate": 1e-3},
    "lm": {"steps": 200, "batch_size": 8, "learning_rate": 2e-3},
    "prompted-pairs": {"steps": 300, "learning_rate": 2e-3},
    "seq2seq": {"steps": 300, "learning_rate": 2e-3},
    "summarise": {"steps": 300, "learning_rate": 2e-3},
    "table2text": {"steps": 200, "learning_rate": 2e-3},
}
"""What a model is trained with that a task made itself, beside batches of 16: the published results are of these."""

RATES = {"learning_rate": 5e-5, "learning_rates": {"head": 1e-4, "conditioner": 1e-4}, "warmup_ratio": 0.06}
"""What a pretrained one is trained with, whatever the task."""


def comparison(task: str, *overrides: str, methods: tuple[str | dict, ...] = ("softmax",)) -> CompareConfig:
    return configured({"task": task, "methods": list(methods)}, overrides)


def given(settings: TrainingSettings) -> dict[str, object]:
    """What is not TrainingSettings' own default."""
    defaults = {name: field.default for name, field in TrainingSettings.model_fields.items()}
    return {name: value for name, value in settings.model_dump().items() if value != defaults[name]}


def test_every_task_is_stated():
    assert set(SMALL) == set(registry.names())


@pytest.mark.parametrize("task", SMALL)
def test_a_small_start_is_trained_as_ever(task):
    assert given(common_settings(comparison(task))) == SMALL[task]


@pytest.mark.parametrize("task", SMALL)
@pytest.mark.parametrize("model", ["gpt2", "FOLDER", "FOLDER/model.gguf"])
def test_a_pretrained_start_is_fine_tuned_in_one_way(task, model, tmp_path):
    settings = common_settings(comparison(task, f"start.model={model.replace('FOLDER', str(tmp_path))}"))
    assert given(settings) == {**SMALL[task], **RATES}


@pytest.mark.parametrize("name", sorted(built_in()))
def test_recipes_have_what_they_say_and_nothing_else(name):
    config = configured(read(name))
    of_task = registry.get(config.task).training_defaults
    assert common_settings(config) == merged(of_task, config.training, "training")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.learning_rate=1e-5", {"learning_rate": 1e-5, "learning_rates": {}, "warmup_ratio": 0.06}),
        ("training.learning_rates.head=3e-4", {"learning_rates": {"head": 3e-4, "conditioner": 1e-4}}),
        ("training.warmup_steps=0", {"warmup_ratio": 0.0, "warmup_steps": 0}),
        ("training.warmup_steps=9", {"warmup_ratio": 0.0, "warmup_steps": 9}),
        ("training.lora.rank=2", {"learning_rates": {"head": 1e-4, "conditioner": 1e-4, "backbone": 5e-4}}),
        ("fine_tuning.new_parameters=2e-3", {"learning_rates": {"head": 2e-3, "conditioner": 2e-3}}),
    ],
)
def test_what_is_asked_for_wins(override, expected):
    settings = common_settings(comparison("lm", "start.model=gpt2", override)).model_dump()
    assert {name: settings[name] for name in expected} == expected


def test_a_rate_of_one_method_is_that_of_all_its_parts():
    method = {"head": "mos:2", "training": {"learning_rate": 1e-4}, "then": {"objective": "unlikelihood"}}
    config = comparison("lm", "start.model=gpt2", "second_training.learning_rate=1e-6", methods=("softmax", method))
    (plain,), (first, second) = (stage_settings(one, config) for one in config.methods)
    assert (plain.learning_rate, plain.learning_rates) == (5e-5, RATES["learning_rates"])
    assert (first.learning_rate, first.learning_rates) == (1e-4, {})
    assert (second.learning_rate, second.learning_rates) == (1e-6, {})


def test_random_weights_of_a_pretrained_architecture_are_not_fine_tuned():
    config = comparison("lm", "start.model=gpt2")
    (settings,) = stage_settings(Method(head="softmax", from_scratch=True), config)
    assert given(settings) == SMALL["lm"]


@pytest.mark.parametrize(
    ("source", "pretrained"),
    [("trained for task lm", False), ("random weights for task lm", False), ("openai-community/gpt2", True)],
)
def test_the_small_start_of_another_comparison_is_not_pretrained(source, pretrained, tmp_path):
    start = tmp_path / "runs" / "start"
    (start / "model").mkdir(parents=True)
    (start / "start.json").write_text(json.dumps({"source": source}))
    copied = tmp_path / "again" / "start"
    (copied / "model").mkdir(parents=True)
    (copied / "start.json").write_text(json.dumps({"source": str(start / "model")}))
    for folder in (start, copied):
        config = comparison("lm", f"start.model={folder / 'model'}")
        assert (config.fine_tuning is not None) == pretrained


def test_a_wrong_start_is_told_alone(tmp_path: Path):
    with pytest.raises(ValueError, match=r"start\.modell: unknown key") as told:
        comparison("lm", "start.modell=gpt2")
    assert "fine_tuning" not in str(told.value)
