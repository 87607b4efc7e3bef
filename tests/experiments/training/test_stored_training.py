"""A head that is trained from stored states is the one that is trained through the model, and so is its folder."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, GenerationConfig, GPT2Config

import nextword as nw
from nextword.experiments.training.one_training import fit
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.stored_training import dropout_rates, expect_trainable, ordinary, store_task_states
from nextword.experiments.training.train_config import TrainConfig, configured
from nextword.experiments.training.train_model import train
from nextword.inference.states import StatesSettings
from nextword.model.stored_states import finished_model
from tests.helpers import text_tokenizers
from tests.helpers.killed_trainings import WORDS
from tests.helpers.stored_rows import backbone, save_model_and_text, stored
from tests.helpers.summaries import save_encoder, write_pairs

TASK = {"block": 16, "window": 16, "stride": 8}
TRAINING = {"steps": 6, "batch_size": 4, "trains": "head", "evaluate_every": 3}


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, Any]:
    saved = save_model_and_text(tmp_path, 400)
    return {"model": saved["model"], "task": {"data": saved["text"], **TASK}}


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


def _pairs(folder: Path) -> Path:
    chance = random.Random(0)
    texts = [chance.choices(WORDS, k=chance.randint(4, 9)) for _ in range(60)]
    rows = [json.dumps({"source": " ".join(text), "target": " ".join(text[: len(text) // 2])}) for text in texts]
    (folder / "pairs.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return folder / "pairs.jsonl"


PAIR_TASK = {"kind": "pairs", "max_source_tokens": 24, "max_target_tokens": 12, "test_pairs": 4}


@pytest.mark.parametrize("family", ["t5", "bart", "llama"])
@pytest.mark.parametrize("method", ["softmax+e/mle", "copynet/unlikelihood", "softmax+cepr:20+mi/mle"])
def test_a_training_on_pairs_is_the_one_through_the_model(tmp_path: Path, family: str, method: str) -> None:
    if family == "llama":
        method = method.replace("+e", "+proj").replace("cepr", "cpr")
    tokenizer = text_tokenizers.byte_level()
    backbone(family, len(tokenizer)).float().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    recipe = {"model": str(tmp_path / "model"), "task": {"data": str(_pairs(tmp_path)), **PAIR_TASK}}
    _build(recipe, tmp_path / "states")
    asked = {"method": method, "training": TRAINING}
    whole = train(configured(recipe | asked), tmp_path / "whole")
    ours = train(configured({"states": str(tmp_path / "states"), **asked}), tmp_path / "ours")
    for curve in ("curve", "validation_curve"):
        expected_losses, losses = ([one.loss for one in getattr(of, curve)] for of in (whole, ours))
        assert losses == pytest.approx(expected_losses, abs=1e-5)
    assert losses
    for name, value in whole.evaluation.metrics.items():
        assert ours.evaluation.metrics[name].value == pytest.approx(value.value, abs=1e-4), name
    expected, found = (nw.load(tmp_path / name) for name in ("whole", "ours"))
    assert expected.state_dict().keys() == found.state_dict().keys()
    for name, weight in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], weight, rtol=0, atol=1e-5, msg=name)
    source = tokenizer("the cat saw one", return_tensors="pt")
    written = [one.generate(**source, max_new_tokens=8, do_sample=False).tolist() for one in (expected, found)]
    assert written[0] == written[1]


@pytest.mark.parametrize("family", ["t5", "bart"])
@pytest.mark.parametrize("method", ["mos:2/face", "softmax+e/mle", "copynet/unlikelihood", "softmax+cepr:20+mi/mle"])
def test_in_double_precision_fifty_steps_end_in_the_same_weights(tmp_path: Path, family: str, method: str) -> None:
    """In single precision Adam makes whole steps of a gradient that is rounding alone, as that of a new gate of mos."""
    model, from_store, rows = stored(family, tmp_path / "states")
    data = Dataset.from_dict({"input_ids": [row.source for row in rows], "labels": [(*row.ids[1:], 9) for row in rows]})
    head, _, objective = method.partition("/")
    settings = TrainingSettings(steps=50, batch_size=2, learning_rate=1e-3, trains="head", evaluate_every=25)
    trained, losses = [], []
    for name, plain in (("whole", model), ("ours", from_store)):
        torch.manual_seed(0)
        one = nw.attach(plain, head, objective)
        trained.append(one.next_word_head)
        before = copy.deepcopy(one.next_word_head.state_dict())
        done = fit(one.train(), data, settings, seed=0, folder=tmp_path / name, validation=data)
        losses.append([point.loss for point in (*done.curve, *done.validation_curve)])
        assert any(not torch.equal(weight, before[key]) for key, weight in one.next_word_head.state_dict().items())
    assert losses[1] == pytest.approx(losses[0], abs=1e-10)
    for weight, expected in zip(trained[1].parameters(), trained[0].parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=0, atol=1e-10)


def _summaries(folder: Path) -> dict[str, Any]:
    # a model, and a task whose articles are written from summaries that an encoder reads
    tokenizer = text_tokenizers.byte_level()
    backbone("gpt2", len(tokenizer)).float().save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "news").mkdir()
    task = {"data": str(write_pairs(folder / "news")), "encoder": save_encoder(folder / "encoder"), "length": 12}
    task |= {"kind": "auxiliary", "prompt_tokens": 7, "same_slices": True}
    return {"model": str(folder / "model"), "task": task}


@pytest.mark.parametrize("method", ["softmax/mle/dau", "softmax/mle/lmh:max", "pg/unlikelihood/dau:max,published"])
def test_a_conditioner_that_leaves_the_states_is_trained_as_through_the_model(tmp_path: Path, method: str) -> None:
    recipe = _summaries(tmp_path)
    _build(recipe, tmp_path / "states")
    training = {name: value for name, value in TRAINING.items() if name != "trains"}
    asked = {"method": method, "training": {**training, "epochs": 2, "steps": None}}
    whole = train(configured(recipe | asked), tmp_path / "whole")
    ours = train(configured({"states": str(tmp_path / "states"), **asked}), tmp_path / "ours")
    assert sorted(ours.cost.trained.values()) == sorted(whole.cost.trained.values())
    for curve in ("curve", "validation_curve"):
        expected_losses, losses = ([one.loss for one in getattr(of, curve)] for of in (whole, ours))
        assert losses == pytest.approx(expected_losses, abs=1e-5)
    for name, value in whole.evaluation.metrics.items():
        assert ours.evaluation.metrics[name].value == pytest.approx(value.value, rel=1e-4, abs=1e-4), name
    expected, found = (nw.load(tmp_path / name) for name in ("whole", "ours"))
    assert expected.conditioner.project.weight.any()
    assert expected.state_dict().keys() == found.state_dict().keys()
    for name, weight in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], weight, rtol=0, atol=1e-5, msg=name)
    half = ordinary(found.to(torch.bfloat16), recipe["model"])
    assert {weight.dtype for weight in half.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("conditioner", "training", "said"),
    [
        ("bergpt", {}, "'bergpt' changes the states"),
        ("prefix:2", {}, "'prefix:2' changes the states"),
        ({"conditioner": "lmh", "trains": "decoder"}, {}, "trains=decoder changes"),
        ("dau", {"trains": "head"}, "would not be trained"),
    ],
)
def test_other_conditioners_are_refused(tmp_path: Path, conditioner: Any, training: dict[str, Any], said: str) -> None:
    recipe = _summaries(tmp_path)
    _build(recipe, tmp_path / "states")
    asked = {"states": str(tmp_path / "states"), "head": "mos:2", "conditioner": conditioner, "training": training}
    with pytest.raises(ValueError, match=said):
        train(configured(asked), tmp_path / "refused")
    recipe["task"]["same_slices"] = False
    with pytest.raises(ValueError, match="same_slices"):
        _build(recipe, tmp_path / "others")


def test_the_backbone_is_not_loaded(tmp_path: Path, saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    _build(saved, tmp_path / "states")
    called = []
    monkeypatch.setattr("nextword.experiments.training.starting_model.load", lambda *_, **__: called.append("load"))
    monkeypatch.setattr("nextword.experiments.training.stored_training.load", lambda *_, **__: called.append("load"))
    train(configured({"states": str(tmp_path / "states"), "head": "mos:2", "training": TRAINING}), tmp_path / "out")
    assert not called


@pytest.mark.parametrize("has_file", [True, False])
def test_texts_are_written_with_the_settings_of_the_model(
    tmp_path: Path, saved: dict[str, Any], has_file: bool
) -> None:
    """Those that stand beside its weights, and otherwise what follows from its configuration."""
    file = tmp_path / "model" / "generation_config.json"
    file.write_text('{"eos_token_id": [1, 7], "temperature": 0.5, "do_sample": true}')
    if not has_file:
        file.unlink()
    _build(saved, tmp_path / "states")
    asked = {"head": "mos:2", "training": TRAINING}
    train(configured(saved | asked), tmp_path / "whole")
    train(configured({"states": str(tmp_path / "states"), **asked}), tmp_path / "ours")
    whole, ours = (GenerationConfig.from_pretrained(tmp_path / name).to_dict() for name in ("whole", "ours"))
    assert {name: value or None for name, value in ours.items()} == {
        name: value or None for name, value in whole.items()
    }
    assert (whole["temperature"] == 0.5) == has_file


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


def test_a_model_without_sdpa_attention_is_saved(tmp_path: Path) -> None:
    """transformers refuses to make a Gemma 2 with the attention that a model of stored states has."""
    saved = save_model_and_text(tmp_path, 400, "gemma2")
    _build({"model": saved["model"], "task": {"data": saved["text"], **TASK}}, tmp_path / "states")
    train(configured({"states": str(tmp_path / "states"), "head": "mos:2", "training": TRAINING}), tmp_path / "ours")
    ours, begun = nw.load(tmp_path / "ours"), AutoModelForCausalLM.from_pretrained(saved["model"])
    for name, weight in begun.state_dict().items():
        assert torch.equal(ours.backbone.state_dict()[name], weight), name


def test_what_would_change_the_states_is_refused(tmp_path: Path, saved: dict[str, Any]) -> None:
    _build(saved, tmp_path / "states")
    for changes, said in (
        ({"training": {**TRAINING, "trains": "all"}}, "trains"),
        ({"training": {**TRAINING, "lora": {"rank": 2}}}, "lora"),
        ({"objective": "unlikelihood+seq:5x5"}, r"\+seq"),
        ({"task": {"block": 12}}, "block: 16 there, 12"),
        ({"task": {"test_tokens": 37}}, "test_tokens"),
    ):
        recipe = {"states": str(tmp_path / "states"), "head": "mos:2", "training": TRAINING} | changes
        with pytest.raises(ValueError, match=said):
            train(configured(recipe), tmp_path / "refused")


def test_a_head_that_begins_on_other_tokens_is_refused_with_what_to_give(tmp_path: Path, saved: dict[str, Any]) -> None:
    _build(saved, tmp_path / "states")
    recipe = {"states": str(tmp_path / "states"), "training": {**TRAINING, "steps": 1, "evaluate_every": None}}
    with pytest.raises(ValueError, match=r"head 'f2.*start=random"):
        train(configured({**recipe, "head": "f2"}), tmp_path / "refused")
    train(configured({**recipe, "head": "f2:start=random"}), tmp_path / "out")


def test_a_model_with_dropout_is_refused(tmp_path: Path, saved: dict[str, Any]) -> None:
    _build(saved, tmp_path / "states")
    config = tmp_path / "states" / "config.json"
    config.write_text(config.read_text().replace('"attention_dropout": 0.0', '"attention_dropout": 0.1'))
    with pytest.raises(ValueError, match="dropout"):
        train(configured({"states": str(tmp_path / "states"), "head": "mos:2"}), tmp_path / "out")


@pytest.mark.parametrize("name", ["encoder_layerdrop", "decoder_layerdrop", "activation_dropout"])
def test_rates_of_an_encoder_decoder_model_are_looked_at(tmp_path: Path, name: str) -> None:
    _, from_store, _ = stored("bart", tmp_path)
    asked = TrainConfig(method="mos:2", model="x", data="x")
    expect_trainable(asked, TrainingSettings(steps=1, trains="head"), from_store)
    from_store.config.classifier_dropout = 0.1  # of no language model
    expect_trainable(asked, TrainingSettings(steps=1, trains="head"), from_store)
    setattr(from_store.config, name, 0.1)
    with pytest.raises(ValueError, match=name):
        expect_trainable(asked, TrainingSettings(steps=1, trains="head"), from_store)


def test_rates_of_classifiers_count_for_nothing() -> None:
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    assert GPT2Config(**none).summary_first_dropout > 0
    assert dropout_rates(GPT2Config(**none)) == ""
    assert dropout_rates(GPT2Config(**none | {"attn_pdrop": 0.1})) == "attn_pdrop 0.1"


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
