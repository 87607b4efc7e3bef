"""A comparison whose heads are trained from one store of states is the one that trains them through the model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import nextword as nw
from nextword.experiments.comparison import initial_checkpoint, stored_start
from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.training import stored_training
from nextword.experiments.training.stored_training import store_task_states
from nextword.experiments.training.train_config import configured as training_configured
from nextword.inference.states import StatesSettings
from nextword.model.stored_states import finished_model
from nextword.results.records import Results
from tests.helpers import text_tokenizers
from tests.helpers.counting_task import Heard
from tests.helpers.stored_rows import backbone, save_model_and_text

TASK = {"name": "lm", "block": 16, "window": 16, "stride": 8}
TRAINING = {"steps": 6, "batch_size": 4, "evaluate_every": 3}
METHODS = ["softmax+proj", "mos:2+mi", "pg/unlikelihood"]
EXACT = 1e-10


@pytest.fixture(autouse=True)
def no_page(quick_report: None) -> None:
    """Drawing the page takes longer than these trainings do."""


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    saved = save_model_and_text(tmp_path, 200)
    return {
        "task": {**TASK, "data": saved["text"]},
        "start": {"model": saved["model"]},
        "methods": METHODS,
        "training": TRAINING,
    }


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (initial_checkpoint, stored_start):
        monkeypatch.setattr(module, "PRECISION", torch.float64)


def _compare(recipe: dict[str, Any], out: Path, heard: Heard | None = None, **changes: Any) -> Results:
    return compare(configured({**recipe, **changes}), out, heard or Heard())


def _through_the_model(recipe: dict[str, Any], out: Path, **changes: Any) -> Results:
    return _compare({**recipe, "training": {**recipe["training"], "trains": "head"}}, out, **changes)


def _expect_alike(ours: Results, theirs: Results) -> None:
    assert not ours.failures
    assert [(run.method, run.seed) for run in ours.runs] == [(run.method, run.seed) for run in theirs.runs]
    for one, other in zip(ours.runs, theirs.runs, strict=True):
        for name, value in other.evaluation.metrics.items():
            assert one.evaluation.metrics[name].value == pytest.approx(value.value, rel=0, abs=EXACT), one.method
        assert one.evaluation.tuned == other.evaluation.tuned
        found, expected = (run.settings.get("validation_curve", []) for run in (one, other))
        assert [point["loss"] for point in found] == pytest.approx([p["loss"] for p in expected], rel=0, abs=EXACT)
        assert [point.loss for point in one.curve] == pytest.approx([p.loss for p in other.curve], rel=0, abs=EXACT)
        assert one.cost.parameters == other.cost.parameters
        assert one.cost.trained_parameters == other.cost.trained_parameters
        assert ("states" in one.settings) == bool(one.curve)


def test_losses_and_measurements_are_those_through_the_model(
    tmp_path: Path, recipe: dict[str, Any], in_float64: None
) -> None:
    ours = _compare(recipe, tmp_path / "ours", seeds=[0, 1], states=str(tmp_path / "states"))
    _expect_alike(ours, _through_the_model(recipe, tmp_path / "theirs", seeds=[0, 1]))
    weights = [nw.load(tmp_path / name / "trained" / "mos-2-mi-mle-seed1" / "model") for name in ("ours", "theirs")]
    found, expected = (one.state_dict() for one in weights)
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=EXACT, msg=name)


def test_stages_searches_and_heads_that_are_not_trained(
    tmp_path: Path, recipe: dict[str, Any], in_float64: None
) -> None:
    methods = [
        {"head": "softmax", "trained": False},
        {"head": "cache", "trained_as": "softmax+proj"},
        {"head": "pg", "then": {"objective": "unlikelihood"}},
        {"head": "mos:2", "search": {"training.learning_rate": [1e-4, 1e-2], "head.components": [2, 3]}},
    ]
    ours = _compare(recipe, tmp_path / "ours", methods=methods, states=str(tmp_path / "states"))
    theirs = _through_the_model(recipe, tmp_path / "theirs", methods=methods)
    _expect_alike(ours, theirs)
    found, expected = (one.searches["mos:2"] for one in (ours, theirs))
    assert found.chosen == expected.chosen
    assert [one.nats for one in found.tried] == pytest.approx([one.nats for one in expected.tried], rel=0, abs=EXACT)


@pytest.mark.parametrize("killed_in", [("states", "computing"), ("mos:2+mi, seed 0", "training")])
def test_a_killed_comparison_resumes(tmp_path: Path, recipe: dict[str, Any], killed_in: tuple[str, str]) -> None:
    states = str(tmp_path / "states")
    with pytest.raises(ComparisonInterrupted):
        _compare(recipe, tmp_path / "killed", Heard(killed_in=killed_in), states=states)
    again = _compare(recipe, tmp_path / "killed", states=states)
    whole = _compare(recipe, tmp_path / "whole", states=str(tmp_path / "others"))
    assert [run.evaluation for run in again.runs] == [run.evaluation for run in whole.runs]


def test_the_store_is_used_again_without_the_backbone(
    tmp_path: Path, recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Methods are added to a finished comparison."""
    states = str(tmp_path / "states")
    _compare(recipe, tmp_path / "out", methods=METHODS[:2], states=states)
    before = (tmp_path / "states" / "states.json").stat().st_mtime_ns
    called: list[str] = []
    monkeypatch.setattr(initial_checkpoint, "_plain_model", lambda *_: called.append("start"))
    for module in (initial_checkpoint, stored_training):
        monkeypatch.setattr(module, "load", lambda *_, **__: called.append("load"))
    results = _compare(recipe, tmp_path / "out", states=states)
    assert not called
    assert len(results.runs) == 3
    assert (tmp_path / "states" / "states.json").stat().st_mtime_ns == before


def test_texts_are_those_of_the_saved_model(tmp_path: Path, recipe: dict[str, Any], in_float64: None) -> None:
    task = {**recipe["task"], "generation": {"prompts": 2, "prefix": 4, "continuation": 6, "decodings": ["greedy"]}}
    both = {"task": task, "methods": [METHODS[0], {"head": "cache", "trained_as": "softmax+proj"}]}
    ours = _compare(recipe, tmp_path / "ours", **both, states=str(tmp_path / "states"))
    theirs = _through_the_model(recipe, tmp_path / "theirs", **both)
    assert not ours.failures
    for one, other in zip(ours.runs, theirs.runs, strict=True):
        for mine, their in zip(one.samples["greedy"], other.samples["greedy"], strict=True):
            assert (tmp_path / "ours" / mine).read_text() == (tmp_path / "theirs" / their).read_text()


def test_what_a_task_measures_otherwise_is_measured_on_the_whole_model(tmp_path: Path) -> None:
    """Its own small start, and training settings of the task that ask for more than the head."""
    small = {"n_embd": 16, "n_layer": 1, "n_head": 2, "documents": 100, "knows": 0}
    recipe = {
        "task": {"name": "ambiguous", "start": small},
        "methods": ["softmax+proj"],
        "training": {"steps": 2, "evaluate_every": 1},
        "start": {"training": {"steps": 2}},
    }
    ours = _compare(recipe, tmp_path / "ours", states=str(tmp_path / "states"))
    theirs = _through_the_model(
        recipe | {"training": {**recipe["training"], "freeze_output_embeddings": False}}, tmp_path / "theirs"
    )
    assert not ours.failures
    for name, value in theirs.runs[0].evaluation.metrics.items():
        assert ours.runs[0].evaluation.metrics[name].value == pytest.approx(value.value, rel=1e-4), name


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"methods": ["softmax"]}, "method 'softmax'.*trained=false"),
        ({"methods": ["mos:2", {"head": "pg", "from_scratch": True}]}, r"method 'pg \(from scratch\)': from_scratch"),
        ({"methods": [{"head": "pg", "training": {"trains": "all"}}]}, "method 'pg': training.trains"),
        ({"methods": [{"head": "pg", "training": {"trains": "all", "lora": {"rank": 2}}}]}, "method 'pg': training"),
        ({"methods": ["pg/mle/lmh"]}, "method 'pg with lmh': conditioner: must be left out"),
        ({"methods": ["pg/mle+seq"]}, r"method 'pg/mle\+seq': objective"),
        ({"methods": [{"head": "pg", "then": {"objective": "mle+seq"}}]}, "objective.*seq"),
        ({"training": {**TRAINING, "trains": "all"}}, "method 'softmax[+]proj': training.trains.*without states"),
        ({"task": {"name": "seq2seq", "data": "pairs"}}, "decoder-only"),
    ],
)
def test_what_cannot_be_trained_from_states_is_refused_before_anything_is_computed(
    tmp_path: Path, recipe: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    if changes.get("task"):
        (tmp_path / "pairs").mkdir()
        for part in ("train", "validation", "test"):
            (tmp_path / "pairs" / f"{part}.jsonl").write_text('{"source": "a b", "target": "b"}\n' * 8)
        changes = {"task": {"name": "seq2seq", "data": str(tmp_path / "pairs")}}
    with pytest.raises(ValueError, match=said) as refused:
        _compare(recipe, tmp_path / "out", **changes, states=str(tmp_path / "states"))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "states").exists()
    assert not (tmp_path / "out" / "start" / "start.json").exists()


def test_a_model_with_dropout_is_refused(tmp_path: Path, recipe: dict[str, Any]) -> None:
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"attention_dropout": 0.0', '"attention_dropout": 0.1'))
    with pytest.raises(ValueError, match=r"start: .*attention_dropout 0.1"):
        _compare(recipe, tmp_path / "out", states=str(tmp_path / "states"))


def test_another_store_is_refused(tmp_path: Path, recipe: dict[str, Any]) -> None:
    states = str(tmp_path / "states")
    _compare(recipe, tmp_path / "out", methods=["mos:2"], states=states)
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "a.txt").write_text("mine")
    torch.manual_seed(1)
    other = backbone("llama", len(text_tokenizers.byte_level())).float()
    with torch.no_grad():
        other.model.norm.weight.mul_(2)
    other.save_pretrained(tmp_path / "other")
    text_tokenizers.byte_level().save_pretrained(tmp_path / "other")
    for changes, said in (
        ({"states": str(tmp_path / "others")}, "states: must be a store"),
        ({"start": {"model": str(tmp_path / "other")}}, "initial checkpoint"),
        ({"task": {**recipe["task"], "block": 12}}, "block: 16 there, 12 asked for"),
        ({"methods": ["mos:2+mi"]}, "3 layers.* has 1"),
    ):
        with pytest.raises(ValueError, match=said) as refused:
            _compare(recipe, tmp_path / "new", **{"methods": ["mos:2"], "states": states, **changes})
        assert "\n" not in str(refused.value)
        assert not list((tmp_path / "new").glob("trained/*"))
        shutil.rmtree(tmp_path / "new", ignore_errors=True)


def test_a_comparison_keeps_its_kind_and_precision(tmp_path: Path, recipe: dict[str, Any]) -> None:
    states = str(tmp_path / "states")
    _compare(recipe, tmp_path / "out", methods=["mos:2"], states=states)
    with pytest.raises(ValueError, match="states: "):
        _compare(recipe, tmp_path / "out", methods=["mos:2"])
    task = {key: value for key, value in recipe["task"].items() if key != "name"}
    asked = training_configured({"model": recipe["start"]["model"], "task": task, "head": "softmax"})
    store_task_states(asked, tmp_path / "exact", StatesSettings(precision="float32"))
    with pytest.raises(ValueError, match="precision"):
        _compare(recipe, tmp_path / "out", methods=["mos:2", "pg"], states=str(tmp_path / "exact"))
    ours = _compare(recipe, tmp_path / "exact-out", methods=["mos:2", "pg"], states=str(tmp_path / "exact"))
    assert ours.runs[0].settings["states"]["precision"] == "float32"


def test_a_head_is_trained_alone_from_the_store_of_a_comparison(tmp_path: Path, recipe: dict[str, Any]) -> None:
    _compare(recipe, tmp_path / "out", methods=["mos:2"], states=str(tmp_path / "states"))
    results = nw.train(states=tmp_path / "states", head="mos:2", training={"steps": 2}, out=tmp_path / "one")
    assert results.evaluation.metrics["nll"].value > 0


def test_a_datastore_of_the_store_of_a_comparison_retrieves(tmp_path: Path, recipe: dict[str, Any]) -> None:
    _compare(recipe, tmp_path / "out", methods=["mos:2"], states=str(tmp_path / "states"))
    folder = tmp_path / "out" / "trained" / "mos-2-mle-seed0" / "model"
    retrieving = {"head": "knn", "store": str(tmp_path / "states"), "k": 4, "weight": 0.5}
    ids = torch.arange(5, 13)[None]
    alone, both = (model(input_ids=ids).logits for model in (nw.load(folder), nw.attach(nw.load(folder), retrieving)))
    torch.testing.assert_close(both.exp().sum(-1), torch.ones(1, 8))
    assert not torch.allclose(both, alone)


@pytest.mark.parametrize("linked", [True, False])
def test_models_share_the_file_of_the_backbone_and_none_is_written_through(
    tmp_path: Path, recipe: dict[str, Any], linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise OSError("no links on this disk")

    if not linked:
        monkeypatch.setattr(finished_model.os, "link", refused)
    _compare(recipe, tmp_path / "out", methods=["mos:2", "pg"], states=str(tmp_path / "states"))
    one, other = (tmp_path / "out" / "trained" / f"{name}-mle-seed0" / "model" for name in ("mos-2", "pg"))
    piece = "model-00001-of-00002.safetensors"
    assert (one / piece).samefile(other / piece) == linked
    before = load_file(other / piece)
    model = nw.load(one)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(1)
    size = sum(weight.nbytes for weight in model.backbone.state_dict().values())
    model.save_pretrained(one, max_shard_size=size)  # in pieces of the same names
    assert (one / piece).is_file()
    for name, weight in load_file(other / piece).items():
        assert torch.equal(weight, before[name])
