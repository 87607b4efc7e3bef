from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nextword.cli import app
from nextword.results.records import ScoreResults
from nextword.retrieval.ngram import MatchWeights, NgramManifest
from tests.helpers.word_models import TEXT, word_model, word_tokenizer

pytest.importorskip("pydivsufsort")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["ngram", *map(str, words)], env={"COLUMNS": "200"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    word_model(1).save_pretrained(tmp_path / "model")
    word_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "train.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "valid.txt").write_text("the queen sat on a horse and the king saw the queen ran far", encoding="utf-8")
    (tmp_path / "test.txt").write_text("the old dog sat on a horse and the king saw it ran far", encoding="utf-8")
    return tmp_path


def test_a_memory_is_built_weighed_and_scored(folder: Path) -> None:
    model, memory, weights = folder / "model", folder / "memory", folder / "weights.json"
    done = run("build", model, folder / "train.txt", "--out", memory)
    assert done.exit_code == 0, done.output
    assert "22 tokens of 1 documents" in done.output
    assert NgramManifest.of(memory).data == [str(folder / "train.txt")]
    done = run("fit", model, memory, folder / "valid.txt", "--out", weights)
    assert done.exit_code == 0, done.output
    assert MatchWeights.load(weights).model == "model"
    done = run("score", model, memory, folder / "test.txt", "--weights", weights, "--out", folder / "score.json")
    assert done.exit_code == 0, done.output
    assert "model+text" in done.output
    found = ScoreResults.load(folder / "score.json")
    assert found["model+text"].nll < found["model"].nll


def test_a_stored_text_is_one_line(folder: Path) -> None:
    model, memory = folder / "model", folder / "memory"
    assert run("build", model, folder / "train.txt", "--out", memory).exit_code == 0
    done = run("fit", model, memory, folder / "train.txt", "--out", folder / "weights.json")
    assert done.exit_code == 2
    assert "error: train.txt: must not be in the n-gram index" in done.output
    assert not (folder / "weights.json").exists()
    allowed = run("fit", model, memory, folder / "train.txt", "--out", folder / "weights.json", "--stored-text")
    assert allowed.exit_code == 0, allowed.output


def test_an_empty_folder_is_one_line(folder: Path) -> None:
    (folder / "empty").mkdir()
    for given, said in (
        (
            (folder / "empty", folder / "train.txt"),
            "must be the folder of a model or tokenizer (an empty folder given)",
        ),
        ((folder / "model", folder / "empty"), "(the folder is empty); name the file"),
    ):
        done = run("build", *given, "--out", folder / "memory")
        assert done.exit_code == 2
        assert said in " ".join(done.output.split())
        assert not (folder / "memory").exists()


def test_the_hint_for_a_column_is_taken(folder: Path) -> None:
    (folder / "train.csv").write_text(f"story\n{TEXT}\n", encoding="utf-8")
    given = "build", folder / "model", folder / "train.csv", "--out", folder / "memory"
    assert "name the column of the text with --field text=COLUMN" in " ".join(run(*given).output.split())
    for number, field in enumerate(("text=story", "story")):
        assert run(*given[:-1], folder / str(number), "--field", field).exit_code == 0


def test_what_is_missing_is_one_line(folder: Path) -> None:
    done = run("fit", folder / "model", folder, folder / "valid.txt", "--out", folder / "weights.json")
    assert done.exit_code == 2
    assert "must be a finished n-gram index (no text-memory.json there)" in done.output


def test_the_name_that_it_had_is_understood() -> None:
    done = CliRunner().invoke(app, ["text-memory", "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "'ngram'" in done.stderr
    assert "build" in done.stdout
