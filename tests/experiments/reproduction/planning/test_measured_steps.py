from __future__ import annotations

import pytest

from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.reproduction.planning import measured_steps as module
from nextword.experiments.reproduction.planning.experiment_plan import comparison_plan, timed
from nextword.experiments.reproduction.planning.measured_steps import (
    INTERRUPTED,
    MOST,
    UNTIMED,
    FewRows,
    StepsHere,
    kind_of,
)
from nextword.experiments.training.one_training import fit
from tests.helpers.killed_trainings import sentences

pytestmark = pytest.mark.usefixtures("counting_paper")

METHODS = ["softmax", "cache", "cache:temperature=4", {"head": "mos:2", "training": {"batch_size": 8}}]


def planned(*overrides, say=lambda line: None, methods=METHODS, length=("steps", 50)):
    recipe = {"task": "counting", "methods": methods, "seeds": [0, 1], "training": dict([length])}
    return timed(comparison_plan(configured(recipe, overrides)), StepsHere(say))


@pytest.fixture
def trainings(monkeypatch):
    """What was trained, one after the other."""
    done = []

    def watched(model, rows, settings, **given):
        done.append((settings, len(rows)))
        return fit(model, rows, settings, **given)

    monkeypatch.setattr(module, "fit", watched)
    return done


@pytest.mark.slow
def test_each_kind_is_tried_once_and_the_rest_follows(trainings):
    said = []
    one = planned(say=said.append)
    titles = [training.method.title for training in one.work.all_trainings]
    costs = dict(zip(titles, one.costs, strict=True))
    assert titles == ["the start", "softmax", "cache", "cache:temperature=4", "mos:2"]
    assert all(cost.seconds > 0 and cost.memory > 4 * one.parameters for cost in one.costs)
    assert costs["cache"] == costs["cache:temperature=4"]
    assert [settings.batch_size for settings, _ in trainings] == [4, 4, 4, 8]
    assert all(settings.steps == UNTIMED + MOST for settings, _ in trainings)
    assert [line for line in said if line.startswith("timing")] == [
        f"timing {name}, batches of {size} ..."
        for name, size in (("the start", 4), ("softmax", 4), ("cache", 4), ("mos:2", 8))
    ]
    each = [training.steps * training.runs for training in one.work.all_trainings]
    assert one.seconds == pytest.approx(sum(cost.seconds * count for cost, count in zip(one.costs, each, strict=True)))


@pytest.mark.slow
def test_epochs_are_steps_by_the_rows_that_are_there():
    one = planned(methods=["softmax"], length=("epochs", 3))
    cost = one.costs[-1]
    rows = len(one.work.task.data.training(one.work.task.start.tokenizer()))
    assert cost.steps == 3 * -(-rows // 4)
    assert one.steps == 2 * cost.steps


@pytest.mark.slow
def test_ctrl_c_leaves_what_was_measured(monkeypatch):
    def interrupted(training, *_):
        raise KeyboardInterrupt

    def say(line):
        if line.startswith("timing cache"):
            monkeypatch.setattr(module, "_cost", interrupted)

    one = planned(say=say)
    assert [cost.reason for cost in one.costs] == ["", "", INTERRUPTED, INTERRUPTED, INTERRUPTED]
    assert one.costs[0].seconds > 0
    assert one.seconds is None


def test_trainings_of_one_kind_differ_in_fractions_alone():
    recipe = {"task": "counting", "methods": METHODS, "seeds": [0], "training": {"steps": 50}}
    work = comparison_plan(configured(recipe, [])).work
    kinds = {training.method.title: kind_of(training, work) for training in work.all_trainings}
    assert kinds["cache"] == kinds["cache:temperature=4"]
    assert len(set(kinds.values())) == len(kinds) - 1


def test_what_does_not_fit_is_not_begun(monkeypatch, trainings):
    monkeypatch.setattr(module, "free_to_train", lambda: 1000)
    one = planned()
    for cost in one.costs:
        assert "does not fit into memory: needs about" in cost.reason
        assert "training.trains=head" in cost.reason
    assert trainings == []


def test_a_start_that_is_not_here_is_not_tried(trainings):
    one = planned("start.model=openai-community/gpt2", methods=["softmax"])
    assert [cost.reason for cost in one.costs] == ["not measured: openai-community/gpt2 is not on this machine"]
    assert one.parameters == pytest.approx(124e6, rel=0.01)
    assert trainings == []


def test_heads_are_tried_on_the_states_of_one_batch(tmp_path, trainings):
    (tmp_path / "text.txt").write_text("\n".join(sentences(200)))
    sizes = {
        "vocabulary": 280,
        "block": 16,
        "window": 16,
        "stride": 8,
        "start": {"n_embd": 16, "n_layer": 1, "n_head": 2},
    }
    recipe = {
        "task": {"name": "lm", "data": str(tmp_path / "text.txt"), **sizes},
        "methods": ["softmax+mi:1x2"],
        "training": {"steps": 50, "batch_size": 4},
        "states": str(tmp_path / "states"),
    }
    one = timed(comparison_plan(configured(recipe)), StepsHere(lambda line: None))
    assert all(cost.seconds > 0 for cost in one.costs)
    assert [(settings.trains, rows) for settings, rows in trainings][1] == ("head", 4)
    assert not (tmp_path / "states").exists()
    dropout = timed(comparison_plan(configured(recipe, ["task.start.dropout=0.1"])), StepsHere(lambda line: None))
    assert "must train without dropout" in dropout.costs[1].reason


def test_few_rows_are_drawn_from_all():
    class Rows:
        column_names = ("input_ids",)

        def __len__(self):
            return 100

        def __getitem__(self, place):
            return {"input_ids": [place]}

    few = FewRows(Rows(), 5)
    drawn = [few[place]["input_ids"][0] for place in range(len(few))]
    assert len(set(drawn)) == 5
    assert drawn != list(range(5))
    assert len(FewRows(Rows(), 500)) == 100
