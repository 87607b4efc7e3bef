"""Comparisons of methods with a conditioner, and of what is not trained."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import nextword as nw
from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.tasks import registry
from nextword.experiments.tasks.head_counts import training_counts
from nextword.experiments.training.collator import RightPadding
from nextword.results.records import Results
from tests.helpers.advised import WIDTH, Advised, AdvisedRows, save_encoder
from tests.helpers.counting_task import Heard

pytestmark = pytest.mark.usefixtures("counting", "advised", "quick_report")

COPYING = {"head": "softmax+ce", "conditioner": {"conditioner": "bergpt", "trains": "all"}, "label": "copying"}
PLAIN = {"head": "softmax", "trained": False}
RECIPE = {
    "task": {"name": "advised"},
    "methods": [PLAIN, "softmax", "softmax/mle/dau", COPYING],
    "seeds": [0],
    "training": {"steps": 5, "save_every": 1, "log_every": 1},
}


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    """The task, registered for the tests of this file only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Advised, "folder", save_encoder(tmp_path_factory.mktemp("encoder")))
        patch.setitem(registry._entries, "advised", Advised)
        yield Advised


@pytest.fixture
def batches(monkeypatch):
    """What the collator makes in every step, by training."""
    seen = []

    class Recording(RightPadding):
        def __call__(self, examples):
            batch = super().__call__(examples)
            seen.append(batch)
            return batch

    monkeypatch.setattr("nextword.experiments.training.one_training.RightPadding", Recording)
    return seen


def weights(folder, name):
    return load_file(folder / "trained" / f"{name}-seed0" / "model" / "model.safetensors")


@pytest.mark.slow
def test_all_kinds_of_methods_side_by_side(tmp_path, batches):
    heard = Heard()
    results = compare(configured(RECIPE), tmp_path, heard)
    untrained, plain, adjusted, copying = results.runs
    assert [run.conditioner for run in results.runs] == [None, None, "dau", "bergpt"]
    assert [run.method for run in results.runs] == ["softmax (not trained)", "softmax", "softmax with dau", "copying"]
    assert heard.trained == ["start", *(f"{run.method}, seed 0" for run in results.runs[1:])]
    assert heard.of("encoding") == ["auxiliary texts"]  # once, for the frozen encoder
    columns = [frozenset(batch) - {"input_ids", "labels", "attention_mask", "return_logits"} for batch in batches]
    assert [set(found) for found, _ in itertools.groupby(columns)] == [
        set(),  # the start, and softmax
        {"aux_attention_mask", "aux_states"},
        {"aux_attention_mask", "aux_input_ids", "source_ids", "source_positions"},
    ]
    assert (untrained.curve, untrained.cost.trained_parameters, untrained.cost.ms_per_step) == ([], 0, None)
    assert plain.cost.trained_parameters == plain.cost.parameters == untrained.cost.parameters
    assert adjusted.cost.trained_parameters == 20 * (WIDTH + 1)
    assert copying.cost.trained_parameters == copying.cost.parameters > adjusted.cost.parameters
    assert [list(run.cost.trained) for run in results.runs] == [[], ["all"], ["conditioner"], ["all"]]
    assert all(sum(run.cost.trained.values()) == run.cost.trained_parameters for run in results.runs)
    assert Results.load(tmp_path / "results.json") == results
    for run, name in zip(results.runs, ("mle-untrained", "mle", "mle-with-dau"), strict=False):
        model = nw.load(tmp_path / "trained" / f"softmax-{name}-seed0" / "model")
        assert Advised(Advised.Config()).measures.evaluate(model.eval(), None) == run.evaluation


def test_what_is_not_trained_is_the_start(tmp_path):
    (run,) = compare(configured({**RECIPE, "methods": [PLAIN]}), tmp_path).runs
    start = load_file(tmp_path / "start" / "model" / "model.safetensors")
    model = weights(tmp_path, "softmax-mle-untrained")
    assert all(torch.equal(model[f"backbone.{name}"], value) for name, value in start.items())
    assert "training" not in run.settings


def test_a_conditioned_method_needs_a_text_and_says_so_at_once(tmp_path):
    heard = Heard()
    with pytest.raises(ValueError, match="'counting'"):
        compare(configured({**RECIPE, "task": "counting"}), tmp_path / "out", heard)
    assert heard.events == []
    with pytest.raises(ValueError, match="'softmax with dua'"):
        compare(configured({**RECIPE, "methods": ["softmax/mle/dua"]}), tmp_path / "out", heard)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["softmax/mle/dau", COPYING], ids=["encoded before", "encoded in every step"])
def test_a_training_killed_within_an_epoch_goes_on_to_the_same_weights(tmp_path, advised, method, monkeypatch):
    recipe = {**RECIPE, "methods": [method], "training": {**RECIPE["training"], "batch_size": 3}}
    monkeypatch.setattr(advised, "seen", whole := [])
    compare(configured(recipe), tmp_path / "whole")
    name = next((tmp_path / "whole" / "trained").iterdir()).name.removesuffix("-seed0")
    monkeypatch.setattr(advised, "seen", [])
    title = configured(recipe).methods[0].title
    with pytest.raises(ComparisonInterrupted):
        compare(configured(recipe), tmp_path / "cut", Heard(killed_in=(f"{title}, seed 0", "training")))
    monkeypatch.setattr(advised, "seen", rest := [])
    compare(configured(recipe), tmp_path / "cut")
    assert rest[-5:] == whole[-5:]  # the last of the first epoch, and those of the second
    assert {epoch for epoch, _ in rest[-4:]} == {1}
    first, second = (weights(tmp_path / folder, name) for folder in ("whole", "cut"))
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.slow
def test_texts_beyond_the_limit_are_encoded_in_every_step(tmp_path, batches, monkeypatch):
    recipe = configured({**RECIPE, "methods": ["softmax/mle/dau"]})
    compare(recipe, tmp_path / "kept")
    kept = len(batches)
    monkeypatch.setattr("nextword.experiments.training.collator.LIMIT", 100)
    compare(recipe, tmp_path / "anew")
    assert "aux_states" in batches[kept - 1]
    assert "aux_input_ids" in batches[-1]
    first, second = (weights(tmp_path / folder, "softmax-mle-with-dau") for folder in ("kept", "anew"))
    for key, value in first.items():
        torch.testing.assert_close(second[key], value, rtol=0, atol=1e-5, msg=key)


@pytest.mark.slow
def test_validation_texts_are_encoded_too(tmp_path, batches):
    training = {"steps": 2, "evaluate_every": 1}
    results = compare(configured({**RECIPE, "methods": ["softmax/mle/dau"], "training": training}), tmp_path)
    assert len(results.runs[0].settings["validation_curve"]) == 2
    assert all("aux_states" in batch for batch in batches if "aux_attention_mask" in batch)


@pytest.mark.slow
def test_a_test_time_head_keeps_the_trained_conditioner(tmp_path):
    late = {"head": "cache", "trained_as": "softmax", "conditioner": "dau", "tune": False}
    heard = Heard()
    conditioned, cached = compare(configured({**RECIPE, "methods": ["softmax/mle/dau", late]}), tmp_path, heard).runs
    assert heard.trained == ["start", "softmax with dau, seed 0"]
    assert cached.method == "cache with dau (trained as softmax)"
    assert cached.evaluation != conditioned.evaluation


@pytest.mark.slow
def test_rates_are_those_of_the_parts_that_a_method_has(tmp_path, caplog):
    rates = {"conditioner": 1e-3, "encoder": 1e-4}
    recipe = {**RECIPE, "methods": ["softmax", "softmax/mle/dau", COPYING], "training": {"steps": 1}}
    recipe["training"] |= {"learning_rate": 1e-2, "learning_rates": rates, "scheduler": "constant"}
    compare(configured(recipe), tmp_path / "a")
    start = load_file(tmp_path / "a" / "start" / "model" / "model.safetensors")["transformer.h.0.mlp.c_fc.weight"]
    moved = {name: weights(tmp_path / "a", name) for name in ("softmax-mle", "softmax-mle-with-dau")}
    plain = moved["softmax-mle"]["backbone.transformer.h.0.mlp.c_fc.weight"] - start
    assert float(plain.abs().max()) == pytest.approx(1e-2, rel=1e-2)
    assert float(moved["softmax-mle-with-dau"]["conditioner.project.weight"].abs().max()) == pytest.approx(
        1e-3, rel=1e-2
    )
    compare(configured({**recipe, "methods": ["softmax"], "seeds": [0]}), tmp_path / "c")
    assert "learning_rates.conditioner has no effect: no method here trains that part" in caplog.text
    misspelt = {**recipe, "training": {"steps": 1, "learning_rates": {"condtioner": 1e-3}}}
    heard = Heard()
    with pytest.raises(ValueError, match=r"learning_rates\.condtioner:.*'conditioner'"):
        compare(configured(misspelt), tmp_path / "b", heard)
    assert heard.trained == []


@pytest.mark.slow
def test_one_method_may_be_trained_with_adapters(tmp_path):
    pytest.importorskip("peft")
    adapted = {"head": "softmax", "conditioner": "bergpt", "label": "lora", "training": {"lora": {"rank": 2}}}
    heard = Heard()
    full, low = compare(configured({**RECIPE, "methods": ["softmax/mle/bergpt", adapted]}), tmp_path, heard).runs
    assert heard.trained == ["start", "softmax with bergpt, seed 0", "lora, seed 0"]
    assert low.settings["training"]["lora"]["rank"] == 2
    assert full.settings["training"]["lora"] is None
    assert low.cost.parameters == full.cost.parameters
    folders = {path.name.removesuffix("-seed0"): path for path in (tmp_path / "trained").iterdir()}
    own = next(name for name in folders if "own" in name)
    one, two = weights(tmp_path, "softmax-mle-with-bergpt"), weights(tmp_path, own)
    assert list(one) == list(two)
    start = load_file(tmp_path / "start" / "model" / "model.safetensors")
    for name in ("attn.c_attn.weight", "ln_1.weight"):
        before = start[f"transformer.h.0.{name}"]
        assert torch.equal(two[f"backbone.transformer.h.0.{name}"], before) == (name == "ln_1.weight")
    assert any(not torch.equal(two[name], one[name]) for name in one if name.startswith("conditioner."))
    assert not torch.equal(two["backbone.lm_head.weight"], start["transformer.wte.weight"])


@pytest.mark.slow
def test_a_second_stage_freezes_what_the_first_did(tmp_path):
    second = {"head": "softmax", "conditioner": "dau", "then": {"objective": "unlikelihood"}}
    (run,) = compare(configured({**RECIPE, "methods": [second]}), tmp_path).runs
    assert run.cost.trained_parameters == 20 * (WIDTH + 1)
    one, two = (load_file(path / "model" / "model.safetensors") for path in sorted((tmp_path / "trained").iterdir()))
    changed = {name for name in one if not torch.equal(one[name], two[name])}
    assert changed == {"conditioner.project.weight", "conditioner.project.bias"}


@pytest.mark.slow
def test_a_folder_from_before_there_were_conditioners_is_gone_on_with(tmp_path):
    first = compare(configured({**RECIPE, "methods": ["softmax"]}), tmp_path)
    claim = json.loads((tmp_path / "compare.json").read_text())
    for later in ("conditioner", "trained", "training"):
        del claim["methods"]["softmax"][later]
    (tmp_path / "compare.json").write_text(json.dumps(claim))
    heard = Heard()
    assert compare(configured({**RECIPE, "methods": ["softmax"]}), tmp_path, heard).runs == first.runs
    assert heard.trained == []
    own = {"head": "softmax", "training": {"steps": 2}}
    (tmp_path / "compare.json").write_text(json.dumps(claim))
    with pytest.raises(ValueError, match=r"(?s)belongs to another.*methods\.softmax\.training\.steps"):
        compare(configured({**RECIPE, "methods": [own]}), tmp_path)


def test_data_that_differs_between_epochs_is_counted_as_it_first_is(advised):
    task = advised(advised.Config())
    rows = AdvisedRows([])
    labels = [label for place in range(len(rows)) for label in rows[place]["labels"]]
    assert (
        training_counts(task.data, task.start.tokenizer()).counts.tolist() == np.bincount(labels, minlength=20).tolist()
    )
