"""A head that is trained from stored states is the one that is trained through the model, and so is its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import nextword as nw
from nextword.experiments.training.stored_training import store_task_states
from nextword.experiments.training.train_config import configured
from nextword.experiments.training.train_model import train
from nextword.inference.states import StatesSettings
from nextword.model.stored_states import finished_model
from tests.helpers import text_tokenizers
from tests.helpers.killed_trainings import sentences
from tests.helpers.stored_rows import backbone

TASK = {"block": 16, "window": 16, "stride": 8}
TRAINING = {"steps": 6, "batch_size": 4, "trains": "head", "evaluate_every": 3}


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, Any]:
    tokenizer = text_tokenizers.byte_level()
    backbone("llama", len(tokenizer)).float().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n".join(sentences(400)), encoding="utf-8")
    return {"model": str(tmp_path / "model"), "task": {"data": str(tmp_path / "text.txt"), **TASK}}


def _build(recipe: dict[str, Any], out: Path, **settings: Any) -> None:
    chosen = StatesSettings(**{"precision": "float32", "layers": 3, **settings})
    store_task_states(configured(recipe | {"head": "softmax"}), out, chosen)


@pytest.mark.parametrize("method", ["softmax+proj/mle", "softmax+cpr:20+mi/mle", "mos:3/face", "pg/unlikelihood"])
def test_weights_and_measurements_are_those_of_a_training_through_the_model(
    tmp_path: Path, saved: dict[str, Any], method: str
) -> None:
    _build(saved, tmp_path / "states")
    asked = {"method": method, "training": TRAINING}
    whole = train(configured(saved | asked), tmp_path / "whole")
    ours = train(configured({"states": str(tmp_path / "states"), **asked}), tmp_path / "ours")
    assert [one.loss for one in ours.curve] == pytest.approx([one.loss for one in whole.curve], abs=1e-5)
    assert [one.loss for one in ours.validation_curve] == pytest.approx(
        [one.loss for one in whole.validation_curve], abs=1e-5
    )
    assert ours.evaluation.metrics["nll"].value == pytest.approx(whole.evaluation.metrics["nll"].value, abs=1e-5)
    expected, found = (nw.load(tmp_path / name).state_dict() for name in ("whole", "ours"))
    assert expected.keys() == found.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-5, msg=name)


def test_the_backbone_is_not_loaded(tmp_path: Path, saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    _build(saved, tmp_path / "states")
    called = []
    monkeypatch.setattr("nextword.experiments.training.starting_model.load", lambda *_, **__: called.append("load"))
    monkeypatch.setattr("nextword.experiments.training.stored_training.load", lambda *_, **__: called.append("load"))
    train(configured({"states": str(tmp_path / "states"), "head": "mos:2", "training": TRAINING}), tmp_path / "out")
    assert not called


def test_weights_under_other_names_are_loaded_to_besaved(
    tmp_path: Path, saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GGUF file, for instance, has no names that could be copied."""
    _build(saved, tmp_path / "states")
    monkeypatch.setattr(finished_model, "_is_whole", lambda *_: False)
    train(configured({"states": str(tmp_path / "states"), "head": "mos:2", "training": TRAINING}), tmp_path / "loaded")
    monkeypatch.undo()
    train(configured({"states": str(tmp_path / "states"), "head": "mos:2", "training": TRAINING}), tmp_path / "copied")
    loaded, copied = (nw.load(tmp_path / name).state_dict() for name in ("loaded", "copied"))
    assert loaded.keys() == copied.keys()
    for name, weight in loaded.items():
        assert torch.equal(copied[name], weight), name


def test_what_would_change_the_states_is_refused(tmp_path: Path, saved: dict[str, Any]) -> None:
    _build(saved, tmp_path / "states")
    for changes, said in (
        ({"training": {**TRAINING, "trains": "all"}}, "trains"),
        ({"training": {**TRAINING, "lora": {"rank": 2}}}, "lora"),
        ({"task": {"block": 12}}, "block: 16 there, 12"),
        ({"task": {"test_tokens": 37}}, "test_tokens"),
    ):
        recipe = {"states": str(tmp_path / "states"), "head": "mos:2", "training": TRAINING} | changes
        with pytest.raises(ValueError, match=said):
            train(configured(recipe), tmp_path / "refused")


def test_a_model_with_dropout_is_refused(tmp_path: Path, saved: dict[str, Any]) -> None:
    _build(saved, tmp_path / "states")
    config = tmp_path / "states" / "config.json"
    config.write_text(config.read_text().replace('"attention_dropout": 0.0', '"attention_dropout": 0.1'))
    with pytest.raises(ValueError, match="dropout"):
        train(configured({"states": str(tmp_path / "states"), "head": "mos:2"}), tmp_path / "out")


def test_another_store_in_the_folder_is_refused(tmp_path: Path, saved: dict[str, Any]) -> None:
    _build(saved, tmp_path / "states")
    with pytest.raises(ValueError, match="precision"):
        _build(saved, tmp_path / "states", precision="float16")


def test_a_build_that_was_killed_resumes(tmp_path: Path, saved: dict[str, Any]) -> None:
    """Shards that are there stay as they are; the rest is made, and the store is that of an uninterrupted build."""
    _build(saved, tmp_path / "whole", shard_tokens=200)
    _build(saved, tmp_path / "states", shard_tokens=200)
    (tmp_path / "states" / "states.json").unlink()
    (tmp_path / "states" / "shard-00002.json").unlink()
    kept = tmp_path / "states" / "shard-00000.states.npy"
    before = kept.stat().st_mtime_ns
    _build(saved, tmp_path / "states", shard_tokens=200)
    assert kept.stat().st_mtime_ns == before
    for file in sorted((tmp_path / "whole").glob("*.npy")):
        assert file.read_bytes() == (tmp_path / "states" / file.name).read_bytes()


def test_a_training_that_an_earlier_version_began_resumes(tmp_path: Path, saved: dict[str, Any]) -> None:
    """Its manifest knows no stored states."""
    asked = configured(saved | {"head": "mos:2", "training": TRAINING})
    first = train(asked, tmp_path / "out")
    manifest = tmp_path / "out" / "training" / "run.json"
    before = json.loads(manifest.read_text())
    assert before.pop("states") is None
    manifest.write_text(json.dumps(before))
    assert train(asked, tmp_path / "out").curve == first.curve
