"""A second training after the first, random weights, and starts that are not trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import nextword as nw
from nextword.experiments.comparison import preflight
from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.tasks.head_counts import wants_counts, with_counts
from nextword.functional.frequency import TokenCounts, tokenizer_fingerprint
from nextword.heads import Head, HeadConfig, registry
from nextword.heads.softmax import SoftmaxConfig, SoftmaxHead
from tests.helpers.counting_task import Counting, Heard

pytestmark = pytest.mark.usefixtures("counting", "quick_report")

THEN = {"head": "cache", "label": "two", "then": {"objective": "histalign", "training": {"learning_rate": 1e-3}}}
RECIPE = {
    "task": {"name": "counting"},
    "methods": ["cache", THEN],
    "seeds": [0],
    "training": {"save_every": 1},
    "second_training": {"steps": 2},
}


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


@pytest.mark.slow
def test_the_first_stage_is_shared_and_the_second_goes_on_from_it(tmp_path):
    heard = Heard()
    one, two = compare(configured(RECIPE), tmp_path, heard).runs
    assert heard.trained == ["start", "cache, seed 0"]
    assert heard.of("second training") == ["two, seed 0"]
    assert [point.step for point in one.curve] == [1, 3]
    assert [point.step for point in two.curve] == [1, 3, 4, 5]
    assert two.curve[:2] == one.curve
    assert two.cost.train_seconds > one.cost.train_seconds
    assert (two.objective, two.settings["second_training"]["learning_rate"]) == ("mle, then histalign", 1e-3)
    first, second = sorted((tmp_path / "trained").iterdir(), key=lambda folder: len(folder.name))
    assert nw.load(second / "model").objective.config.objective == "histalign"
    changed = max(
        float((a - b).abs().max()) for a, b in zip(weights(first).values(), weights(second).values(), strict=True)
    )
    # AdamW begins anew: two steps at 1e-3 and 5e-4 move a weight by their sum at most
    assert 0 < changed <= 1.5e-3 * 1.01
    assert one.evaluation != two.evaluation


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["training", "second training"])
def test_an_interrupted_stage_is_gone_on_with(tmp_path, stage):
    recipe = {**RECIPE, "methods": [THEN], "second_training": {"steps": 3}}
    whole = compare(configured(recipe), tmp_path / "whole").runs
    with pytest.raises(ComparisonInterrupted):
        compare(configured(recipe), tmp_path / "cut", Heard(killed_in=("two, seed 0", stage)))
    assert list((tmp_path / "cut").rglob("checkpoint-*"))
    heard = Heard()
    resumed = compare(configured(recipe), tmp_path / "cut", heard).runs
    assert heard.trained == ([] if stage == "second training" else ["two, seed 0"])
    assert [run.evaluation for run in resumed] == [run.evaluation for run in whole]
    assert not list((tmp_path / "cut").rglob("checkpoint-*"))


@pytest.mark.slow
def test_models_of_both_stages_are_dropped_when_nobody_needs_them(tmp_path):
    config = configured({**RECIPE, "methods": [THEN, "cache"], "keep_models": False})
    heard = Heard()
    assert len(compare(config, tmp_path, heard).runs) == 2
    assert heard.trained == ["start", "two, seed 0"]
    assert not list(tmp_path.glob("trained/*"))


def test_wrong_settings_of_a_second_stage_are_named_before_anything_is_trained(tmp_path):
    wrong = {"head": "cache", "then": {"objective": "mle", "training": {"lerning_rate": 1}}}
    with pytest.raises(ValueError, match=r"then\.training\.lerning_rate"):
        compare(configured({**RECIPE, "methods": [wrong]}), tmp_path / "a")
    with pytest.raises(ValueError, match=r"second_training\.step: unknown key"):
        compare(configured(RECIPE, ["second_training.step=3"]), tmp_path / "b")
    with pytest.raises(ValueError, match="Did you mean 'histalign'"):
        compare(
            configured({**RECIPE, "methods": [{"head": "cache", "then": {"objective": "histaling"}}]}), tmp_path / "c"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_changed_second_stage_is_another_comparison(tmp_path):
    compare(configured(RECIPE), tmp_path)
    with pytest.raises(ValueError, match=r"second_training\.steps: 2 there, 3 asked for"):
        compare(configured(RECIPE, ["second_training.steps=3"]), tmp_path)
    with pytest.raises(ValueError, match=r"methods\.two\.then\.training\.learning_rate"):
        compare(configured(RECIPE, ["methods.1.then.training.learning_rate=0.1"]), tmp_path)


@pytest.mark.slow
def test_from_scratch_begins_from_random_weights_of_the_seed(tmp_path, monkeypatch):
    begun = {}
    attached = preflight.attach_to_train

    def spy(backbone, head, *rest, **more):
        begun.setdefault(str(head), []).append(backbone.get_input_embeddings().weight.detach().clone())
        return attached(backbone, head, *rest, **more)

    scratch = {"head": "mos:2", "from_scratch": True}
    config = configured({**RECIPE, "methods": ["cache", scratch], "seeds": [0, 1]})
    compare(config, tmp_path / "out")
    monkeypatch.setattr(preflight, "attach_to_train", spy)
    start = weights(tmp_path / "out" / "start")["transformer.wte.weight"]
    compare(
        configured(
            {**RECIPE, "methods": [scratch], "seeds": [0, 1]}, [f"start.model={tmp_path / 'out' / 'start' / 'model'}"]
        ),
        tmp_path / "b",
    )
    zero, one = begun["mos:2"][-2:]
    assert not torch.equal(zero, start)
    assert not torch.equal(zero, one)


def test_an_untrained_start_is_the_same_for_every_method(tmp_path):
    heard = Heard()
    results = compare(configured({**RECIPE, "methods": ["softmax"]}, ["start.training.steps=0"]), tmp_path, heard)
    assert heard.trained == ["softmax, seed 0"]
    assert "steps" not in results.start
    assert results.start["model"] == "random weights for task counting"


@pytest.fixture
def by_counts(monkeypatch):
    """A head with a setting ``counts`` that keeps what it is given."""
    given = []

    class CountsConfig(HeadConfig):
        counts: str | None = None

    class ByCounts(Head):
        Config = CountsConfig

        def __init__(self, config, dimensions):
            super().__init__(config, dimensions)
            given.append(config.counts)
            self.softmax = SoftmaxHead(SoftmaxConfig(), dimensions)

        def forward(self, context, mode=None):
            return self.softmax(context, mode)

        def facts(self):
            return {"classes": 3}

    monkeypatch.setitem(registry._entries, "by-counts", ByCounts)
    return given


def test_heads_that_go_by_counts_get_those_of_the_training_data(tmp_path, by_counts):
    results = compare(configured({**RECIPE, "methods": ["softmax", "by-counts"]}), tmp_path)
    path = tmp_path / "start" / "counts.npz"
    assert set(by_counts) == {str(path)}
    task = Counting(Counting.Config())
    expected = np.bincount(np.concatenate(task.data.training(None)["labels"]), minlength=20)
    counts = TokenCounts.load(path)
    assert counts.counts.tolist() == expected.tolist()
    assert counts.tokenizer == tokenizer_fingerprint(task.start.tokenizer())
    assert [run.facts for run in results.runs] == [{}, {"classes": 3}]


def test_nothing_is_counted_where_nobody_needs_it_and_named_counts_stay(tmp_path, by_counts):
    compare(configured({**RECIPE, "methods": ["softmax"]}), tmp_path)
    assert not (tmp_path / "start" / "counts.npz").exists()
    named = {"head": "by-counts", "counts": "mine.npz"}
    assert not wants_counts(named)
    assert with_counts(named, tmp_path) == named
    assert with_counts("by-counts", tmp_path / "x") == {"head": "by-counts", "counts": str(tmp_path / "x")}


@pytest.mark.slow
def test_what_an_objective_has_counted_survives_an_interruption(tmp_path):
    face = {"head": "softmax", "label": "face", "then": {"objective": "face:opr"}}
    recipe = {**RECIPE, "methods": [face], "second_training": {"steps": 4}}
    compare(configured(recipe), tmp_path / "whole")
    with pytest.raises(ComparisonInterrupted):
        compare(configured(recipe), tmp_path / "cut", Heard(killed_in=("face, seed 0", "second training")))
    compare(configured(recipe), tmp_path / "cut")
    whole, cut = (weights(next((tmp_path / name).glob("trained/*then*"))) for name in ("whole", "cut"))
    counted = {name: value for name, value in whole.items() if name.startswith("objective.")}
    assert sum(float(value.sum()) for value in counted.values()) > 0
    assert all(torch.equal(whole[name], cut[name]) for name in whole)


def test_named_counts_of_another_tokenizer_are_refused(tmp_path, by_counts):
    path = tmp_path / "other.npz"
    TokenCounts(np.array([1, 2]), "0" * 64, "another text").save(path)
    theirs = {"head": {"head": "by-counts", "counts": str(path)}, "label": "theirs"}
    with pytest.raises(ValueError, match=r"head\.counts"):
        compare(configured({**RECIPE, "methods": ["softmax", theirs]}), tmp_path / "out")
