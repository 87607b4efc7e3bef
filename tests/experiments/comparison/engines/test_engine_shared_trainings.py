"""Runs that share a training or a search wait for one another; all others may be at work together."""

from __future__ import annotations

import pytest

from nextword.experiments.comparison.all_methods import compare
from nextword.experiments.comparison.comparison_settings import build_task, configured
from nextword.experiments.comparison.engines.engine import startable
from nextword.experiments.comparison.folder import ComparisonFolder
from nextword.experiments.comparison.one_run import Run, Setting
from nextword.runtime.progress import Watcher

pytestmark = pytest.mark.usefixtures("counting", "quick_report")

LATE = {"head": "cache", "label": "late", "trained_as": "softmax"}
SEARCHED = {"head": "cache", "label": "searched", "search": {"training.learning_rate": [1e-2, 1e-3]}}


def setting_of(folder, *methods, seeds=(0, 1)):
    config = configured({"task": {"name": "counting"}, "methods": list(methods), "seeds": list(seeds)})
    silent = Watcher()
    return Setting(config, build_task(config), ComparisonFolder(folder), None, silent)


def runs_of(setting):
    return [Run(method, seed) for seed in setting.config.seeds for method in setting.config.methods]


def names(runs):
    return [(run.method.label or run.method.spec, run.seed) for run in runs]


def test_methods_and_seeds_that_share_nothing_begin_together(tmp_path):
    setting = setting_of(tmp_path, "softmax", "cache")
    assert len(startable(runs_of(setting), [], setting)) == 4


def test_who_shares_a_training_waits_until_it_is_finished(tmp_path, monkeypatch):
    setting = setting_of(tmp_path, "softmax", LATE, seeds=[0])
    softmax, late = runs_of(setting)
    assert names(startable([softmax, late], [], setting)) == [("softmax", 0)]
    assert startable([late], [softmax], setting) == []
    finished = setting.folder.trained(softmax.method, 0)
    monkeypatch.setattr(ComparisonFolder, "trained_outcome", lambda _, stage: True if stage == finished else None)
    assert startable([late], [softmax], setting) == [late]


def test_a_second_stage_waits_for_the_first(tmp_path):
    first = {"head": "softmax", "objective": "mle"}
    second = {"head": "softmax", "objective": "mle", "label": "longer", "then": {"objective": "unlikelihood"}}
    setting = setting_of(tmp_path, first, second, seeds=[0])
    assert names(startable(runs_of(setting), [], setting)) == [("softmax", 0)]


def test_one_seed_of_a_method_searches_and_the_others_wait(tmp_path):
    setting = setting_of(tmp_path, SEARCHED, "softmax")
    assert names(startable(runs_of(setting), [], setting)) == [("searched", 0), ("softmax", 0), ("softmax", 1)]


@pytest.mark.slow
def test_a_search_that_is_done_holds_nobody_back(tmp_path):
    config = configured({"task": {"name": "counting"}, "methods": [SEARCHED], "seeds": [0]})
    compare(config, tmp_path)
    setting = setting_of(tmp_path, SEARCHED, seeds=[0, 1, 2])
    assert names(startable(runs_of(setting)[1:], [], setting)) == [("searched", 1), ("searched", 2)]
