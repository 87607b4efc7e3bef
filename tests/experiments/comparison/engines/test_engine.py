"""An engine that cannot be used is refused before anything is trained."""

from __future__ import annotations

import pytest

from nextword.experiments.comparison.all_methods import compare
from nextword.experiments.comparison.comparison_settings import build_task, configured
from nextword.experiments.comparison.engines import ray_engine
from nextword.experiments.comparison.engines.engine import Resources, Sequential
from nextword.experiments.comparison.engines.ray_engine import RayEngine
from nextword.experiments.comparison.folder import ComparisonFolder
from nextword.experiments.comparison.one_run import Setting
from nextword.runtime.progress import Watcher

pytestmark = pytest.mark.usefixtures("counting", "quick_report")


def test_ray_that_is_not_installed_is_named_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr("nextword.runtime.optional_libraries._is_there", lambda module: module != "ray")
    with pytest.raises(ValueError, match=r"engine:.*'nextword\[ray\]'"):
        compare(
            configured({"task": {"name": "counting"}, "methods": ["softmax"]}), tmp_path / "out", engine=RayEngine()
        )
    assert not (tmp_path / "out").exists()


def test_ray_beside_torchrun_is_refused(monkeypatch):
    monkeypatch.setattr("nextword.runtime.optional_libraries._is_there", lambda module: True)
    monkeypatch.setattr("nextword.runtime.processes.count", lambda: 2)
    with pytest.raises(ValueError, match=r"engine:.*\(2 given"):
        RayEngine().expect(configured({"task": {"name": "counting"}, "methods": ["softmax"]}))


def test_a_run_computes_with_as_many_threads_as_it_has_cores(tmp_path):
    config = configured({"task": {"name": "counting"}, "methods": ["softmax"], "threads": 2})
    setting = Setting(config, build_task(config), ComparisonFolder(tmp_path), None, Watcher())
    assert ray_engine._work(setting, Resources(cpus=1)).threads == 1


def test_cores_for_a_run_that_has_them_all_are_refused(tmp_path):
    config = configured({"task": {"name": "counting"}, "methods": ["softmax"]})
    with pytest.raises(ValueError, match="engine=ray"):
        compare(config, tmp_path, engine=Sequential(Resources(cpus=1)))
