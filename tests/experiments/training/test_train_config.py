"""Recipes and overrides of one training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nextword as nw
from nextword.experiments.comparison.comparison_settings import configured as compare_configured
from nextword.experiments.training.run_folder import RunFolder
from nextword.experiments.training.train_config import configured, read
from tests.helpers.families import tiny

RECIPE = {"head": "cache", "model": "gpt2", "data": "a.txt"}


def test_a_recipe_with_overrides(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('method = "cache/histalign"\nmodel = "gpt2"\n[task]\ndata = "a.txt"\n[training]\nsteps = 5\n')
    config = configured(read(str(path)), ["training.steps=7", "task.block=64", "seed=3"])
    assert (config.head, config.objective, config.conditioner) == ("cache", "histalign", None)
    assert (config.task, config.training, config.seed) == ({"data": "a.txt", "block": 64}, {"steps": 7}, 3)


def test_data_and_encoder_are_short_for_settings_of_the_task() -> None:
    old = {**RECIPE, "data": {"path": "a.txt", "block": 64}}
    assert configured(old, ['data="b.txt"', "encoder=minilm"]).task == {
        "data": "b.txt", "block": 64, "encoder": "minilm",
    }  # fmt: skip
    compared = compare_configured({"task": "lm", "data": "a.txt", "methods": ["softmax"]}, ["task.block=8"])
    assert (compared.task, compared.task_settings) == ("lm", {"data": "a.txt", "block": 8})


def test_every_setting_of_a_part_can_be_given() -> None:
    config = configured({**RECIPE, "objective": {"objective": "histalign", "alpha": 0.5}}, ["objective.alpha=0.25"])
    assert config.objective == {"objective": "histalign", "alpha": 0.25}


@pytest.mark.parametrize(
    ("changes", "overrides", "message"),
    [
        ({}, ["hed=mos"], r"hed: unknown key. Did you mean 'head'\?"),
        ({"data": None}, [], "task.data: must say what to train on; give data=FILE"),
        ({"data": {"block": 3}}, [], "task.data: must say what to train on; give data=FILE"),
        ({"method": "a/b/c/d"}, [], "'a/b/c/d': must have at most 3 parts"),
        ({"seed": -1}, [], r"seed: must be at least 0 \(-1 given\)"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, object], overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        configured({**RECIPE, **changes}, overrides)


def test_a_model_of_ours_goes_on_with_its_own_head_unless_one_is_named(tmp_path: Path) -> None:
    nw.attach(tiny("llama"), "softmax+cpr:3,5").save_pretrained(tmp_path / "ours")
    recipe = {"model": str(tmp_path / "ours"), "data": "a.txt"}
    assert configured(recipe).head == "softmax+cpr:3,5"
    assert configured({**recipe, "head": "cache"}).head == "cache"
    assert configured({**recipe, "method": "pg/histalign"}).head == "pg"
    tiny("llama").save_pretrained(tmp_path / "plain")
    with pytest.raises(ValueError, match=r"head:.*instance `mos:3`"):
        configured({**recipe, "model": str(tmp_path / "plain")})


def test_a_text_is_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("once upon a time\n")
    with pytest.raises(ValueError, match="train --data FILE"):
        read(str(tmp_path / "book.txt"))


def test_a_recipe_that_is_not_there() -> None:
    with pytest.raises(ValueError, match=r"nowhere.toml:.*recipe; give a TOML"):
        read("nowhere.toml")


def test_a_folder_of_an_earlier_version_is_known_again(tmp_path: Path) -> None:
    training = tmp_path / "training"
    training.mkdir()
    asked = configured(RECIPE, ["task.block=64", "task.encoder=minilm"])
    older = asked.model_dump(mode="json", exclude={"task"}) | {"encoder": "minilm"}
    (training / "run.json").write_text(json.dumps({**older, "data": {"path": "a.txt", "block": 64}, "files": {}}))
    (training / "training.json").touch()
    RunFolder(tmp_path).expect(asked, {})
    with pytest.raises(ValueError, match=r"task.block: 64 there, 32"):
        RunFolder(tmp_path).expect(configured(RECIPE, ["task.block=32", "encoder=minilm"]), {})


def test_all_that_is_missing_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="head: missing") as refused:
        configured({})
    assert [line.partition(":")[0] for line in str(refused.value).splitlines()] == ["head", "model", "task.data"]
    with pytest.raises(ValueError, match="head: missing") as refused:
        configured({"data": "a.txt"})
    assert [line.partition(":")[0] for line in str(refused.value).splitlines()] == ["head", "model"]
