"""Runs as tasks of a real Ray on this machine: ``make test-ray``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from nextword.cli import app
from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.comparison.engines.engine import Resources, Sequential
from nextword.experiments.comparison.engines.ray_engine import RayEngine
from nextword.results.records import Results
from nextword.results.records.reproduced_table import ReproducedTable
from nextword.settings import plugins
from tests.helpers import made_up_paper
from tests.helpers.counting_task import Heard

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("counting", "quick_report", "importable", "one_thread")]

RECIPE = {"task": {"name": "counting"}, "methods": ["softmax", "cache"], "seeds": [0, 1]}
LATE = {"head": "cache", "label": "late", "trained_as": "softmax"}
SEARCHED = {"head": "cache", "label": "searched", "search": {"training.learning_rate": [1e-2, 1e-3]}}
BROKEN = {"head": "cache", "label": "broken", "training": {"learning_rate": 1e30}}
ROOT = Path(__file__).parents[4]


PLUGIN = """
from nextword.experiments.tasks import registry
from tests.helpers.counting_task import Counting

registry._entries.setdefault("counting", Counting)
"""


@pytest.fixture(scope="module")
def plugins_folder(tmp_path_factory):
    """Where a module lies that brings the counting task into processes that import it."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "counting_parts.py").write_text(PLUGIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT / "src", ROOT, folder))))
        yield folder


@pytest.fixture(scope="module", autouse=True)
def cluster(plugins_folder):
    """Ray on this machine with two cores, for the tests of this file."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.fixture
def importable(monkeypatch):
    """Processes of Ray find the counting task, as they find what --import names."""
    monkeypatch.setattr(plugins, "_requested", {})
    plugins.request("counting_parts")


@pytest.fixture
def one_thread():
    """A task of one core computes with one thread; sums over more threads differ in their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Anywhere(Heard):
    """Hears stages of several runs in turns."""

    def __init__(self, interrupted_in=None):
        super().__init__()
        self.interrupted_in = interrupted_in

    def began(self, name, stage):
        super().began(name, stage)
        if (name, stage) == self.interrupted_in:
            raise KeyboardInterrupt

    def advanced(self, name, fraction):
        self.fractions.append(fraction)

    @property
    def done(self):
        """Methods and seeds of the finished runs."""
        return [tuple(event[1:]) for event in self.events if event[0] == "finished"]


def weights(folder):
    return {path.parent.parent.name: load_file(path) for path in folder.glob("trained/*/model/model.safetensors")}


def expect_same(one, two):
    assert (one.failures, two.failures) == ([], [])
    assert [(run.method, run.seed, run.evaluation, run.curve) for run in one.runs] == [
        (run.method, run.seed, run.evaluation, run.curve) for run in two.runs
    ]


def test_the_results_of_one_process_to_the_bit(tmp_path):
    recipe = {**RECIPE, "methods": ["softmax", "mos:2", LATE, SEARCHED]}
    alone = compare(configured(recipe), tmp_path / "alone")
    heard = Anywhere()
    beside = compare(configured(recipe), tmp_path / "ray", heard, engine=RayEngine())
    expect_same(alone, beside)
    assert alone.searches == beside.searches
    one, two = weights(tmp_path / "alone"), weights(tmp_path / "ray")
    assert one.keys() == two.keys()
    assert len(one) >= 6
    for name, tensors in one.items():
        assert all(torch.equal(tensor, two[name][key]) for key, tensor in tensors.items())
    assert heard.trained.count("softmax, seed 0") == 1
    assert heard.events.index(("softmax, seed 0", "evaluation")) < heard.events.index(("finished", "softmax", 0))
    assert heard.fractions


def test_what_is_finished_stays_when_the_rest_is_interrupted(tmp_path):
    first = Anywhere(interrupted_in=("cache, seed 1", "training"))
    with pytest.raises(ComparisonInterrupted, match=r"[0-3] of 4 runs are finished"):
        compare(configured(RECIPE), tmp_path, first, engine=RayEngine())
    finished = {f"{method}, seed {seed}" for method, seed in first.done}
    again = Anywhere()
    results = compare(configured(RECIPE), tmp_path, again, engine=RayEngine())
    _, runs, kept = again.events[0]
    assert (runs, kept >= len(finished)) == (4, True)
    assert not finished & {name for name, *_ in again.events}
    expect_same(results, compare(configured(RECIPE), tmp_path / "alone"))


@pytest.mark.parametrize(("first", "second"), [(Sequential, RayEngine), (RayEngine, Sequential)])
def test_what_one_engine_has_begun_the_other_finishes(first, second, tmp_path):
    """To the numbers of a comparison that was not stopped; what is finished is not done again."""

    class Stopping(Anywhere):
        def finished(self, record):
            super().finished(record)
            raise KeyboardInterrupt

    many = list(range(6))  # so that some are left to do
    config = configured({**RECIPE, "training": {"steps": 200}, "seeds": many})
    before, after = Stopping(), Anywhere()
    with pytest.raises(ComparisonInterrupted):
        compare(config, tmp_path / "both", before, engine=first())
    assert len(before.done) == 1
    results = compare(config, tmp_path / "both", after, engine=second())
    assert after.done
    assert not set(before.done) & set(after.done)
    expect_same(results, compare(config, tmp_path / "alone"))
    one, two = weights(tmp_path / "alone"), weights(tmp_path / "both")
    assert one.keys() == two.keys()
    for name, tensors in one.items():
        assert all(torch.equal(tensor, two[name][key]) for key, tensor in tensors.items())


@pytest.fixture
def paper(tmp_path_factory, monkeypatch):
    """A made-up paper in place of the real ones."""
    made_up_paper.install(monkeypatch, tmp_path_factory.mktemp("paper"))
    yield
    made_up_paper.forget()


def test_a_paper_is_reproduced_with_the_numbers_of_one_process(paper, tmp_path):
    numbers = {}
    for engine in ("sequential", "ray"):
        words = ["reproduce", "counting/table-1", "--engine", engine, "--out", str(tmp_path / engine)]
        done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        written = tmp_path / engine / "tables" / "small" / "counting" / "table-1.json"
        numbers[engine] = [[cell.by_seed for cell in row.cells] for row in ReproducedTable.load(written).rows]
    assert numbers["ray"] == numbers["sequential"]
    assert numbers["ray"][1][0].keys() == {"0", "1"}


def test_a_run_that_fails_and_one_whose_process_is_ended(tmp_path, cluster):
    class Ending(Anywhere):
        def began(self, name, stage):
            super().began(name, stage)
            if (name, stage) == ("long, seed 0", "training"):
                found = subprocess.run(["pgrep", "-f", "ray::carried_out"], capture_output=True, text=True, check=True)
                for process in found.stdout.split():
                    os.kill(int(process), signal.SIGKILL)

    long = {"head": "mos:2", "label": "long", "training": {"steps": 3000}}
    config = configured({**RECIPE, "methods": [BROKEN, "softmax", long], "seeds": [0]})
    results = compare(config, tmp_path, Ending(), engine=RayEngine(Resources(cpus=2)))
    assert [run.method for run in results.runs] == ["softmax"], [
        (run.method, run.reason[:300]) for run in results.failures
    ]
    broken, ended = results.failures
    assert broken.reason.startswith("diverged at step 2")
    assert ended.method == "long"
    assert "WorkerCrashedError" in ended.reason


def test_more_cores_than_a_machine_has_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"--cpus:.*\(3 given"):
        compare(configured(RECIPE), tmp_path / "out", engine=RayEngine(Resources(cpus=3)))
    assert not (tmp_path / "out").exists()


def test_what_would_meet_every_run_ends_the_comparison(tmp_path):
    first = configured({**RECIPE, "methods": ["softmax"], "seeds": [0]})
    compare(first, tmp_path)
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "runs").write_text("")  # no folder can be made here
    with pytest.raises(OSError, match="runs"):
        compare(first, tmp_path, engine=RayEngine())


def test_a_command_that_is_killed_leaves_nothing_at_work_and_goes_on(tmp_path):
    recipe, out = tmp_path / "recipe.toml", tmp_path / "out"
    recipe.write_text(
        'methods = ["softmax", "cache"]\nseeds = [0]\n[task]\nname = "counting"\n[training]\nsteps = 400\n'
    )
    command = [sys.executable, "-m", "nextword", "--import", "counting_parts", "compare", str(recipe)]
    command += ["--out", str(out), "--engine", "ray"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    deadline = time.monotonic() + 120
    while not list(out.glob("trained/*/checkpoint-*")):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stdout.read().decode()
        time.sleep(0.1)
    process.kill()
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(Results.load(out / "results.json").runs) == 2
    assert "2 runs, 0 finished before" in again.stdout
