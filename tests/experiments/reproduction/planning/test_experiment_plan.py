from __future__ import annotations

import pytest
from huggingface_hub import constants

from nextword.experiments.reproduction import experiment as module
from nextword.experiments.reproduction.data_sets import DataFolder
from nextword.experiments.reproduction.experiment import SCALES, AtScale, known_experiments
from nextword.experiments.reproduction.experiment_folder import Request
from nextword.experiments.reproduction.planning.experiment_plan import experiment_plan, timed
from nextword.experiments.reproduction.planning.training_time import gpu_speed
from tests.helpers.real_data import real_data

SPEED = gpu_speed("H100 80GB")
PAPER = [name for name, one in known_experiments().items() if one.paper is not None]
SMALL = [name for name, one in known_experiments().items() if one.small is not None]


def planned(name, scale, data, tmp_path, *changes):
    return timed(experiment_plan(name, Request([], scale, data, tmp_path, changes)), SPEED)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in {"ambiguous", "f2-wikitext"} else [pytest.mark.slow]) for name in PAPER],
)
def test_what_the_papers_have_is_built_without_weights_and_without_data(name, tmp_path):
    data = DataFolder(tmp_path)
    one = planned(name, "paper", data, tmp_path)
    lines = [line for line in one.problems if "must exist" not in line and "must be downloaded" not in line]
    assert lines == []
    assert one.parameters > 50_000_000
    assert one.disk > 4 * one.parameters
    trained = [one.work.sizes[training.method.title].trained for training in one.work.trainings]
    assert one.row is None or one.memory > 12 * max(trained)
    assert not list(tmp_path.iterdir())


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SMALL)
def test_what_runs_here_has_nothing_wrong_and_every_number(name, tmp_path):
    one = planned(name, "small", DataFolder(real_data("wikitext-2").parent), tmp_path)
    assert one.problems == []
    assert one.steps > 0
    assert one.tokens > 0
    assert one.seconds > 0
    assert one.parameters < 50_000_000
    assert not list(tmp_path.iterdir())


@pytest.fixture
def written(tmp_path, monkeypatch):
    """An experiment on a text of a few lines."""
    folder = tmp_path / "data" / "wikitext-2"
    folder.mkdir(parents=True)
    for part in ("train", "valid", "test"):
        (folder / f"{part}.txt").write_text("a line of text\n" * 300)
    one = AtScale(
        recipe="wikitext2",
        data={"task.data": "wikitext-2"},
        overrides=["methods=['softmax','cache']", "seeds=[0,1]", "training.steps=10", "training.batch_size=16"],
    )
    experiment = known_experiments()["f2-wikitext"].model_copy(update={"small": one})
    monkeypatch.setattr(module, "find_experiment", lambda name: experiment)
    return folder


def test_numbers_follow_from_the_settings(written, tmp_path):
    one = planned("mine", "small", DataFolder(written.parent), tmp_path, "task.block=64")
    assert (one.methods, one.seeds, one.steps) == (2, [0, 1], 40)
    assert sum(training.runs for training in one.work.trainings) == 4
    assert one.tokens == 40 * 16 * 64
    assert one.problems == []
    assert one.data == ["wikitext-2"]
    (line,) = [line for line in one.notes if "train.txt" in line]
    assert "it may be incomplete; it is part of WikiText-2" in line


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda folder: (folder / "train.txt").unlink(),
            "train.txt must exist (not found). It is part of WikiText-2: Merity",
        ),
        (
            lambda folder: (folder / "test.txt").write_text(""),
            "test.txt must not be empty. It is part of WikiText-2: Merity",
        ),
        (
            lambda folder: (folder / "valid.txt").write_bytes(b"\xff\xfe\x00"),
            "is not UTF-8 text (UTF-16, by its first bytes); convert it (the data is",
        ),
    ],
)
def test_data_that_is_wrong_is_one_line_and_the_rest_is_planned_all_the_same(written, tmp_path, spoil, message):
    spoil(written)
    one = planned("mine", "small", DataFolder(written.parent), tmp_path)
    (line,) = one.problems
    assert message in line
    assert one.steps == 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("methods=['softmax','cache/histaling']", "Did you mean 'histalign'"),
        ("methods=['softmax+ce']", "method 'softmax+ce': +e: needs a source"),
        ("training.stepz=3", "training.stepz"),
        ("start.model='t5-small'", "start.model: must be a decoder-only model"),
        ("start.model='nobody/nothing'", "start.model: 'nobody/nothing' is neither a folder with a model"),
        ("task.generation={prompts=3, metrics=['mauve']}", "gpt2-large"),
    ],
)
def test_what_would_fail_later_is_told_now(written, tmp_path, change, message, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # with a hub, a model that is missing is a note
    one = planned("mine", "small", DataFolder(written.parent), tmp_path, change)
    assert any(message in line for line in one.problems), one.problems


def test_more_memory_than_there_is_is_a_note(written, tmp_path):
    one = planned("mine", "small", DataFolder(written.parent), tmp_path, "start.model='gpt2-large'", "task.block=1024")
    assert one.memory > 16 * 774e6
    assert f"needs about {one.memory / 1e9:.0f} GB of memory, but the GPU has 80 GB" in one.notes


def test_every_scale_is_tested():
    assert SCALES == ("small", "pretrained", "paper")
