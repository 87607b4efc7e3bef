"""Settings chosen by validation likelihood: the right choice is known, and nothing else decides it."""

from __future__ import annotations

import json

import pytest

from nextword.experiments.comparison import grid_search
from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from tests.helpers.counting_task import FourNumbers, Heard

pytestmark = pytest.mark.usefixtures("counting", "quick_report")

RATES = {"training.learning_rate": [1e-6, 1e-2, 1e-5]}
SEARCHING = {"head": "softmax", "label": "searched", "search": RATES}
RECIPE = {"task": {"name": "counting"}, "methods": [SEARCHING], "seeds": [3, 4], "training": {"steps": 10}}


@pytest.fixture(scope="module")
def finished(counting, tmp_path_factory):
    from nextword.experiments.comparison import all_methods

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_methods, "_report", lambda results, folder: folder.report.write_text("drawn"))
        folder, heard = tmp_path_factory.mktemp("finished"), Heard()
        return folder, compare(configured(RECIPE), folder, heard), heard


@pytest.mark.slow
def test_the_rate_that_learns_is_chosen_and_taken_for_all_seeds(finished):
    folder, results, heard = finished
    search = results.searches["searched"]
    assert (search.seed, search.chosen) == (3, {"training.learning_rate": 1e-2})
    assert [one.settings["training.learning_rate"] for one in search.tried] == [1e-6, 1e-2, 1e-5]
    nats = [one.nats for one in search.tried]
    assert nats[1] == min(nats) < min(nats[0], nats[2]) - 0.1
    assert [run.method for run in results.runs] == ["searched", "searched"]
    assert {run.settings["training"]["learning_rate"] for run in results.runs} == {1e-2}
    # the winner's training is that of the first run, so there is one for each combination and one more for seed 4
    assert heard.trained == [
        "start", *(f"searched (training.learning_rate = {rate}), seed 3" for rate in (1e-6, 1e-2, 1e-5)),
        "searched, seed 4",
    ]  # fmt: skip
    assert len(list((folder / "trained").iterdir())) == 2


@pytest.mark.slow
def test_the_runs_are_those_of_the_method_with_these_settings(finished, tmp_path):
    _, results, _ = finished
    plain = {"head": "softmax", "label": "searched", "training": {"learning_rate": 1e-2}}
    same = compare(configured({**RECIPE, "methods": [plain]}), tmp_path).runs
    assert [run.evaluation for run in same] == [run.evaluation for run in results.runs]


@pytest.mark.slow
def test_settings_of_an_objective_are_searched(tmp_path):
    method = {"head": "cache", "objective": "histalign", "search": {"objective.alpha": [0.5, 1.0]}}
    results = compare(configured({**RECIPE, "methods": [method], "seeds": [0]}), tmp_path)
    chosen = results.searches["cache/histalign"].chosen
    assert results.runs[0].settings["method"]["objective"] == {
        "objective": "histalign",
        "alpha": chosen["objective.alpha"],
    }


@pytest.mark.slow
def test_the_test_part_is_not_looked_at(tmp_path, monkeypatch):
    def forbidden(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(FourNumbers, "evaluate", forbidden)
    with pytest.raises(ComparisonInterrupted):
        compare(configured(RECIPE), tmp_path)
    search = json.loads((tmp_path / "search" / "searched.json").read_text())["search"]
    assert len(search["tried"]) == 3
    assert search["chosen"] == {"training.learning_rate": 1e-2}


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["training", "validation"])
def test_a_killed_search_goes_on(tmp_path, finished, stage):
    name = "searched (training.learning_rate = 0.01), seed 3"
    with pytest.raises(ComparisonInterrupted):
        compare(configured(RECIPE, ["training.save_every=1"]), tmp_path, Heard(killed_in=(name, stage)))
    heard = Heard()
    results = compare(configured(RECIPE, ["training.save_every=1"]), tmp_path, heard)
    assert [run.evaluation for run in results.runs] == [run.evaluation for run in finished[1].runs]
    assert [one.nats for one in results.searches["searched"].tried] == [
        one.nats for one in finished[1].searches["searched"].tried
    ]
    assert "searched (training.learning_rate = 1e-06), seed 3" not in heard.trained
    assert (name in heard.trained) == (stage == "training")


def test_another_call_searches_nothing_and_seeds_may_be_added_in_any_order(tmp_path, finished, monkeypatch):
    import shutil

    folder = shutil.copytree(finished[0], tmp_path / "copy")
    monkeypatch.setattr(grid_search, "train_stages", None)
    heard = Heard()
    results = compare(configured(RECIPE, ["seeds=[5,4,3]"]), folder, heard)
    assert heard.trained == ["searched, seed 5"]
    assert results.searches == finished[1].searches


def test_another_grid_is_another_comparison_once_there_are_results(finished):
    other = {**SEARCHING, "search": {"training.learning_rate": [1e-6, 1e-2]}}
    with pytest.raises(ValueError, match=r"methods\.searched\.search\.training\.learning_rate: \[1e-06, "):
        compare(configured({**RECIPE, "methods": [other]}), finished[0])


@pytest.mark.slow
def test_combinations_that_diverge_are_told_and_never_chosen(tmp_path):
    method = {"head": "softmax", "search": {"training.learning_rate": [1e30, 1e-2]}}
    settings = ["training.max_grad_norm=0.0", "seeds=[0]"]
    search = compare(configured({**RECIPE, "methods": [method]}, settings), tmp_path / "a").searches["softmax"]
    assert search.tried[0].nats is None
    assert search.tried[0].reason
    assert search.chosen == {"training.learning_rate": 1e-2}
    method = {"head": "softmax", "search": {"training.learning_rate": [1e30, 1e31]}}
    results = compare(configured({**RECIPE, "methods": [method, "cache"]}, settings), tmp_path / "b")
    assert [run.method for run in results.runs] == ["cache"]
    assert "none of its 2 trainings can be used" in results.failures[0].reason


@pytest.mark.slow
def test_a_model_that_another_method_needs_stays(tmp_path):
    plain = {"head": "softmax", "label": "slow", "training": {"learning_rate": 1e-6}}
    heard = Heard()
    compare(configured({**RECIPE, "methods": [SEARCHING, plain], "seeds": [0]}), tmp_path, heard)
    assert "slow, seed 0" not in heard.trained
    assert len(list((tmp_path / "trained").iterdir())) == 2


@pytest.mark.slow
def test_no_model_stays_where_none_is_to_be_kept(tmp_path):
    compare(configured({**RECIPE, "keep_models": False}), tmp_path)
    assert not list((tmp_path / "trained").iterdir())


@pytest.mark.slow
def test_second_stages_are_searched_on_one_first_stage(tmp_path):
    then = {"objective": "mle", "training": {"steps": 3}}
    method = {"head": "softmax", "then": then, "label": "two", "search": {"then.training.learning_rate": [1e-7, 1e-2]}}
    heard = Heard()
    results = compare(configured({**RECIPE, "methods": [method], "seeds": [0]}), tmp_path, heard)
    assert len(heard.trained) == 2
    assert len(heard.of("second training")) == 2
    assert results.searches["two"].chosen == {"then.training.learning_rate": 1e-2}
    assert len(list((tmp_path / "trained").iterdir())) == 2
    assert results.runs[0].settings["second_training"]["learning_rate"] == 1e-2
