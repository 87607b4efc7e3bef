"""What is said of data that is half there or broken, before and while an experiment runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nextword.experiments.reproduction import experiment_folder
from nextword.experiments.reproduction.data_sets import DataFolder
from nextword.experiments.reproduction.experiment_folder import ExperimentFolders, Request
from nextword.experiments.reproduction.reproduce_tables import reproduce
from nextword.runtime.progress import Watcher


@pytest.fixture
def data(tmp_path):
    for name in ("train.txt", "valid.txt", "test.txt"):
        path = tmp_path / "data" / "wikitext-2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("some text\n")
    return tmp_path / "data"


def refusing(message):
    def compare(*given):
        raise ValueError(message)

    return compare


def test_what_a_reader_says_while_it_runs_comes_with_where_the_data_is_from(data, tmp_path, monkeypatch):
    folders = ExperimentFolders(Request([], "small", DataFolder(data), tmp_path / "out"))
    monkeypatch.setattr(experiment_folder, "compare_methods", refusing(f"{data / 'wikitext-2' / 'train.txt'}: broken"))
    with pytest.raises(ValueError, match=r"train.txt:.*WikiText-2"):
        folders.run("f2-classes", Watcher())
    monkeypatch.setattr(experiment_folder, "compare_methods", refusing("training.steps: must be at least 1"))
    with pytest.raises(ValueError, match=r"^training.steps: must be at least 1$"):
        folders.run("f2-classes", Watcher())


def test_data_that_is_half_there_is_said_before_anything_is_trained(data, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(experiment_folder, "compare_methods", refusing("begun"))
    with pytest.raises(ValueError, match="begun"):
        reproduce(Request(["f2-softmax/figure-3"], "small", DataFolder(data), tmp_path / "out"))
    said = [record.getMessage() for record in caplog.records if "may be incomplete" in record.getMessage()]
    assert len(said) == 3
    assert "train.txt has 10 bytes, usually 10,797,148" in said[0]


def test_stored_states_lie_with_the_experiment_unless_a_folder_is_given(data, tmp_path):
    places = {"smollm2-135m": tmp_path / "model"}
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        places["smollm2-135m"].mkdir(exist_ok=True)
        (places["smollm2-135m"] / name).write_text("{}")
    asked = Request([], "pretrained", DataFolder(data, places), tmp_path / "out")
    folders = ExperimentFolders(asked)
    assert folders.config("cpr-wikitext").states == str(folders.folder("cpr-wikitext") / "states")
    given = ExperimentFolders(replace(asked, changes=("states='mine'",)))
    assert given.config("cpr-wikitext").states == "mine"
    assert folders.config("cpr-wikitext-tuned").states is None
