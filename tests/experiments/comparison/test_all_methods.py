from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
import torch

import nextword as nw
from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.results.records import Results, locked
from tests.helpers.counting_task import Heard

pytestmark = pytest.mark.usefixtures("counting")

RECIPE = {"task": {"name": "counting"}, "methods": ["softmax", "cache"], "seeds": [0, 1]}


@pytest.fixture(autouse=True)
def report_or_not(request):
    """The tests marked so draw the page."""
    if "real_report" not in request.fixturenames:
        request.getfixturevalue("quick_report")


@pytest.fixture
def real_report():
    """Asks for the real page."""


@pytest.fixture(scope="module")
def finished(counting, tmp_path_factory):
    """A finished comparison, which tests must leave as it is."""
    folder = tmp_path_factory.mktemp("finished") / "out"
    nw.compare(RECIPE, folder)
    return folder


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def record_files(folder):
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("runs/*/record.json")}


def test_every_method_with_every_seed_from_one_start(tmp_path, real_report):
    heard = Heard()
    results = compare(configured(RECIPE), tmp_path / "out", heard, command="nextword compare x")
    assert [(run.method, run.seed) for run in results.runs] == [
        ("softmax", 0),
        ("cache", 0),
        ("softmax", 1),
        ("cache", 1),
    ]
    assert heard.trained == ["start", "softmax, seed 0", "cache, seed 0", "softmax, seed 1", "cache, seed 1"]
    assert ("planned", 4, 0) in heard.events
    assert heard.fractions[-1] == 1.0
    assert Results.load(tmp_path / "out" / "results.json") == results
    assert results.command == "nextword compare x"
    assert results.start["steps"] == 2
    assert results.start["known"]["value"] == 0.5
    assert "<html" in (tmp_path / "out" / "report.html").read_text()
    assert all(run.cost.ms_per_step and run.curve for run in results.runs)
    assert not list((tmp_path / "out").rglob("checkpoint-*"))


@pytest.mark.slow
def test_the_trained_model_is_the_measured_model(finished):
    for run in Results.load(finished / "results.json").runs:
        model = nw.load(finished / "trained" / f"{run.method}-mle-seed{run.seed}" / "model").eval()
        ids = torch.tensor([[1, 2, 3, 4]])
        with torch.no_grad():
            loss = float(model(input_ids=ids, labels=ids).loss)
        assert loss == pytest.approx(run.evaluation.metrics["nll"].value, abs=1e-6)


@pytest.mark.slow
def test_the_same_comparison_gives_the_same_numbers(finished, tmp_path):
    one, two = Results.load(finished / "results.json"), compare(configured(RECIPE), tmp_path)
    assert [run.evaluation for run in one.runs] == [run.evaluation for run in two.runs]
    assert [run.curve for run in one.runs] == [run.curve for run in two.runs]
    assert one.start == two.start


@pytest.mark.slow
def test_an_interrupted_comparison_does_the_rest_next_time(finished, tmp_path):
    with pytest.raises(ComparisonInterrupted, match="1 of 4 runs"):
        compare(configured(RECIPE), tmp_path, Heard(killed_in=("cache, seed 0", "training")))
    assert [run.method for run in Results.load(tmp_path / "results.json").runs] == ["softmax"]
    before = record_files(tmp_path)
    heard = Heard()
    results = compare(configured(RECIPE), tmp_path, heard)
    assert ("planned", 4, 1) in heard.events
    assert heard.trained == ["cache, seed 0", "softmax, seed 1", "cache, seed 1"]
    assert record_files(tmp_path)["softmax-seed0"] == before["softmax-seed0"]
    untouched = Results.load(finished / "results.json")
    assert [run.evaluation for run in results.runs] == [run.evaluation for run in untouched.runs]


def test_an_interrupted_start_is_made_again(tmp_path):
    with pytest.raises(ComparisonInterrupted, match="0 of 4 runs are finished"):
        compare(configured(RECIPE), tmp_path, Heard(killed_in=("start", "training")))
    heard = Heard(killed_in=("softmax, seed 0", "training"))
    with pytest.raises(ComparisonInterrupted, match="0 of 4"):
        compare(configured(RECIPE), tmp_path, heard)
    assert heard.trained == ["start", "softmax, seed 0"]


def test_a_finished_comparison_only_writes_its_report(copied):
    first = Results.load(copied / "results.json")
    heard = Heard()
    again = compare(configured(RECIPE), copied, heard)
    assert heard.events == [("planned", 4, 4)]
    assert again.runs == first.runs


def test_what_is_counted_stands_in_the_results_and_says_nothing_of_the_folder(finished):
    assert Results.load(finished / "results.json").data["numbers"] == 72
    assert "numbers" not in json.loads((finished / "compare.json").read_text())["files"]


def test_a_broken_record_is_moved_aside_and_measured_again(copied, caplog):
    first = Results.load(copied / "results.json")
    path = copied / "runs" / "cache-seed1" / "record.json"
    path.write_text(path.read_text()[:50])
    heard = Heard()
    with caplog.at_level(logging.WARNING):
        again = compare(configured(RECIPE), copied, heard)
    assert [event for event in heard.events if len(event) == 2] == [("cache, seed 1", "evaluation")]
    assert again.runs == first.runs
    assert path.with_name("record.broken-1.json").exists()
    assert "record.broken-1.json, the run is done again" in caplog.text


def test_damaged_weights_are_trained_again(copied, caplog):
    first = Results.load(copied / "results.json")
    (copied / "runs" / "cache-seed1" / "record.json").unlink()
    weights = copied / "trained" / "cache-mle-seed1" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    heard = Heard()
    again = compare(configured(RECIPE), copied, heard)
    assert heard.trained == ["cache, seed 1"]
    assert again.runs[-1].evaluation == first.runs[-1].evaluation
    assert "the model is trained again" in caplog.text


def test_methods_and_seeds_may_be_added(copied):
    heard = Heard(killed_in=("mos:2, seed 1", "training"))
    more = configured({**RECIPE, "methods": ["softmax", "mos:2", "cache"], "seeds": [0, 1, 2]})
    with pytest.raises(ComparisonInterrupted, match="5 of 9 runs are finished"):
        compare(more, copied, heard)
    assert heard.trained == ["mos:2, seed 0", "mos:2, seed 1"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.rows=8", r"task_settings\.rows: 16 there, 8 asked for"),
        ("training.steps=5", r"training\.steps: nothing there, 5 asked for"),
        ("start.seed=3", r"start\.seed: 0 there, 3 asked for"),
        ("seeds=[0]", r"seeds\.1: 1 there, nothing asked for"),
        ('methods=["softmax", {head="cache", note="n"}]', r'methods\.cache\.note: null there, "n" asked for'),
        ('methods=["softmax"]', r"methods\.cache"),
    ],
)
def test_the_folder_of_another_comparison_is_refused(finished, override, message):
    with pytest.raises(ValueError, match=rf"belongs to another comparison \(.*{message}.*choose another out.*delete"):
        compare(configured(RECIPE, [override]), finished)


@pytest.fixture
def plain_start(finished, tmp_path):
    """A model that nothing here was the maker of."""
    return Path(shutil.copytree(finished / "start" / "model", tmp_path / "plain"))


def test_a_comparison_keeps_the_defaults_that_it_was_begun_with(plain_start, tmp_path, caplog):
    recipe = {**RECIPE, "methods": ["softmax"], "seeds": [0], "start": {"model": str(plain_start)}}
    more = {**recipe, "methods": ["softmax", "mos:2"]}
    (now,) = compare(configured(recipe), tmp_path / "now").runs
    assert now.settings["training"]["learning_rate"] == 5e-5
    claim = tmp_path / "now" / "compare.json"
    begun = json.loads(claim.read_text())
    assert begun.pop("fine_tuning")["new_parameters"] == 1e-4
    old = Path(shutil.copytree(tmp_path / "now", tmp_path / "old"))
    (old / "compare.json").write_text(json.dumps(begun))  # as earlier versions wrote it
    for folder, rate, of_head, warnings in ((tmp_path / "now", 5e-5, 1e-4, 0), (old, 1e-2, None, 1)):
        caplog.clear()
        added = compare(configured(more, ["training.warmup_steps=0"] if folder == old else ()), folder).runs[-1]
        training = added.settings["training"]
        assert (training["learning_rate"], training["learning_rates"].get("head")) == (rate, of_head)
        assert caplog.text.count("is high for a pretrained model") == warnings
    with pytest.raises(ValueError, match=r"fine_tuning\.learning_rate: 5e-05 there, 0.001 asked for"):
        compare(configured(recipe, ["fine_tuning.learning_rate=1e-3"]), tmp_path / "now")


@pytest.mark.parametrize("given", [[], ["fine_tuning.learning_rate=5e-5"]])
def test_a_comparison_begun_before_states_were_normalised_goes_on_without(plain_start, tmp_path, given):
    recipe = {**RECIPE, "methods": ["softmax+mi:1x2"], "seeds": [0], "start": {"model": str(plain_start)}}
    out = tmp_path / "out"
    claim, kept = out / "compare.json", []
    for seeds in ([0], [0, 1]):
        compare(configured({**recipe, "seeds": seeds}, given), out)
        saved = json.loads((out / "trained" / f"softmax-mi-1x2-mle-seed{seeds[-1]}/model/config.json").read_text())
        kept.append(saved["head"]["mi"]["normalize"])
        begun = json.loads(claim.read_text())
        begun["fine_tuning"].pop("normalize", None)  # as an earlier version wrote it
        claim.write_text(json.dumps(begun))
    assert kept == [True, False]


def test_threads_and_kept_models_may_change(copied):
    compare(configured({**RECIPE, "threads": 2, "keep_models": False}), copied)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="comparison"):
        compare(configured(RECIPE), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_changed_start_weights_are_noticed(copied):
    record = json.loads((copied / "start" / "start.json").read_text())
    (copied / "start" / "start.json").write_text(json.dumps({**record, "sha256": "0" * 64}))
    with pytest.raises(ValueError, match="its weights changed"):
        compare(configured(RECIPE), copied)


@pytest.mark.slow
def test_a_head_for_test_time_reuses_the_training_of_another(tmp_path):
    late = {"head": "cache", "label": "late", "trained_as": "softmax"}
    heard = Heard()
    results = compare(configured({**RECIPE, "methods": ["softmax", late], "seeds": [0]}), tmp_path, heard)
    assert heard.trained == ["start", "softmax, seed 0"]
    assert ("late, seed 0", "tuning") in heard.events
    plain, tuned = results.runs
    assert tuned.evaluation.tuned == {"temperature": 0.5}
    assert plain.evaluation.tuned == {}
    assert tuned.evaluation.metrics["nll"].value != pytest.approx(plain.evaluation.metrics["nll"].value, abs=1e-6)
    assert tuned.curve == plain.curve


def test_a_head_for_test_time_is_trained_on_its_own_where_nobody_else_is(tmp_path):
    late = {"head": "cache", "label": "late", "trained_as": "softmax"}
    results = compare(configured({**RECIPE, "methods": [late], "seeds": [0]}), tmp_path)
    assert [run.method for run in results.runs] == ["late"]


@pytest.mark.slow
def test_models_are_dropped_when_nobody_needs_them(tmp_path):
    late = {"head": "cache", "label": "late", "trained_as": "softmax"}
    config = configured({**RECIPE, "methods": ["softmax", "mos:2", late], "seeds": [0], "keep_models": False})
    heard = Heard()
    assert len(compare(config, tmp_path, heard).runs) == 3
    assert heard.trained == ["start", "softmax, seed 0", "mos:2, seed 0"]
    assert not list(tmp_path.glob("trained/*"))


def test_a_given_start_model_is_copied_and_used(finished, tmp_path):
    first = Results.load(finished / "results.json")
    given = finished / "start" / "model"
    heard = Heard()
    recipe = {**RECIPE, "methods": ["cache"], "seeds": [1]}
    second = compare(configured(recipe, [f"start.model={given}"]), tmp_path, heard)
    assert heard.trained == ["cache, seed 1"]
    assert second.start["sha256"] == first.start["sha256"]
    assert second.runs[0].evaluation == first.runs[-1].evaluation


def test_a_start_with_a_head_of_ours_is_refused(finished, tmp_path):
    given = finished / "trained" / "cache-mle-seed0" / "model"
    with pytest.raises(ValueError, match="already has a head"):
        compare(configured(RECIPE, [f"start.model={given}"]), tmp_path / "second")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("sotfmax", r"method 'sotfmax': .*Did you mean 'softmax'"),
        ("cache/histaling", r"method 'cache/histaling': .*Did you mean 'histalign'"),
        ({"head": "cache", "trained_as": "sotfmax"}, "Did you mean 'softmax'"),
    ],
)
def test_a_wrong_method_is_refused_before_anything_is_trained(tmp_path, method, message):
    heard = Heard()
    with pytest.raises(ValueError, match=message):
        compare(configured({**RECIPE, "methods": ["softmax", method]}), tmp_path, heard)
    assert heard.trained == []


def test_wrong_settings_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"task\.rosw:.*'rows'"):
        compare(configured(RECIPE, ["task.rosw=3"]), tmp_path / "a")
    with pytest.raises(ValueError, match=r"training\.batchsize:.*'batch_size'"):
        compare(configured(RECIPE, ["training.batchsize=3"]), tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_drawn_yet_does_not_end_the_comparison(tmp_path, monkeypatch, caplog):
    written = []

    def write(results, folder):
        written.append(len(results.runs))
        if len(results.runs) < 2:
            raise RuntimeError("not enough to draw")

    monkeypatch.setattr("nextword.experiments.comparison.all_methods._report", write)
    assert len(compare(configured({**RECIPE, "seeds": [0]}), tmp_path).runs) == 2
    assert written == [1, 2, 2]
    assert "not enough to draw" in caplog.text


def test_a_folder_in_which_another_process_is_at_work_is_refused(copied):
    heard, before = Heard(), record_files(copied)
    refused = pytest.raises(ValueError, match="nextword compare")
    with locked(copied, "nextword compare first"), refused:
        compare(configured({**RECIPE, "seeds": [0, 1, 2]}), copied, heard)
    assert (heard.events, record_files(copied)) == ([], before)
    assert [run.seed for run in compare(configured({**RECIPE, "seeds": [0, 1, 2]}), copied).runs][-1] == 2


def test_a_method_that_is_refused_leaves_the_folder_free_for_the_right_one(tmp_path):
    with pytest.raises(ValueError, match="method 'f2:100000'"):
        compare(configured({**RECIPE, "methods": ["f2:100000"]}), tmp_path)
    results = compare(configured({**RECIPE, "methods": ["f2:2"], "seeds": [0]}), tmp_path)
    assert [run.method for run in results.runs] == ["f2:2"]


@pytest.mark.slow
def test_a_method_that_is_refused_is_not_added_to_a_finished_comparison(copied):
    heard = Heard()
    with pytest.raises(ValueError, match="method 'f2:100000'"):
        compare(configured({**RECIPE, "methods": [*RECIPE["methods"], "f2:100000"]}), copied, heard)
    assert heard.trained == []
    compare(configured({**RECIPE, "methods": [*RECIPE["methods"], "f2:2"]}), copied, heard)
    assert heard.trained == ["f2:2, seed 0", "f2:2, seed 1"]
