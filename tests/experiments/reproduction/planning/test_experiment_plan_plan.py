from __future__ import annotations

import shutil
from collections import namedtuple

import pytest

from nextword.experiments.reproduction.data_sets import DataFolder
from nextword.experiments.reproduction.experiment_folder import Request
from nextword.experiments.reproduction.planning.experiment_plan import experiment_plan, plan, timed
from nextword.experiments.reproduction.planning.training_time import gpu_speed
from nextword.experiments.reproduction.reproduce_tables import all_tables

pytestmark = pytest.mark.usefixtures("counting_paper")


def planned(out, *tables):
    return plan(Request(tables or all_tables(), "small", DataFolder(), out), gpu_speed("L4"))


def test_each_experiment_stands_once_with_the_tables_that_it_fills(counting_paper, tmp_path):
    whole = planned(tmp_path)
    (one,) = whole.experiments
    assert (one.name, one.tables) == ("counting", ["counting/table-1", "counting/table-2"])
    assert (one.methods, one.seeds, one.steps, one.tokens) == (
        2,
        [0, 1],
        8,
        None if one.row is None else 8 * 4 * one.row.tokens,
    )
    assert whole.without == ["counting/table-3"]
    assert whole.is_sound
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_too_small_is_a_problem(counting_paper, tmp_path, monkeypatch):
    usage = namedtuple("usage", ["total", "used", "free"])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 5, 5))
    whole = planned(tmp_path / "not" / "there")
    assert not whole.is_sound
    assert "make room or choose another" in whole.problems[0]


def test_an_experiment_that_begins_from_another_s_start_is_built_on_that(counting_paper, tmp_path):
    request = Request(["counting/table-1"], "small", DataFolder(), tmp_path)
    own, shared = (timed(experiment_plan(name, request), gpu_speed("L4")) for name in ("counting", "again"))
    assert shared.problems == []
    assert (own.start, shared.start) == ("its own, 2 steps", "that of counting")
    assert shared.parameters == own.parameters
    assert shared.seconds < own.seconds
