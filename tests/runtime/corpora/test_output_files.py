"""No command writes over what it reads: the rule, and each verb."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextword.cli import app
from nextword.runtime.corpora.output_files import expect_inputs_kept

LINE = '{"text": "the cat sat"}\n'


def kept(out: str | Path, *inputs: str | Path | None) -> None:
    expect_inputs_kept({"--out": [out]}, inputs)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.jsonl").write_text(LINE)
    (tmp_path / "other.jsonl").write_text(LINE)
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("spelling", ["data.jsonl", "./folder/../data.jsonl", "{here}/data.jsonl", "soft", "hard"])
def test_another_spelling_is_the_same_file(spelling: str, here: Path) -> None:
    Path("soft").symlink_to("data.jsonl")
    os.link("data.jsonl", "hard")
    for out, read in ((spelling.format(here=here), "data.jsonl"), ("data.jsonl", spelling.format(here=here))):
        with pytest.raises(ValueError, match=r"--out .*: must not be a file that is read \(.* is read\)"):
            kept(out, None, "a/name-on-the-hub", read)


def test_a_link_to_a_file_that_is_to_be_made(here: Path) -> None:
    Path("link").symlink_to("new.jsonl")
    with pytest.raises(ValueError, match="--tokens: must be different"):
        expect_inputs_kept({"--tokens": ["link"], "--out": ["new.jsonl"]}, [])


def test_of_a_folder_those_count_that_are_read(here: Path) -> None:
    for name in ("texts/deep/train.txt", "texts/picture.png", "model/config.json", "model/model.safetensors"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("a")
    Path("model/score.json").write_text("{}")  # of an earlier score of this model
    for out in ("texts/deep/train.txt", "model/config.json", "model/model.safetensors"):
        with pytest.raises(ValueError, match="must not be a file that is read"):
            kept(out, "texts", "model")
    for out in ("texts/picture.png", "texts/test.txt", "model/score.json", "model/texts.jsonl", "new"):
        kept(out, "texts", "model", "data.jsonl")


def survey(here: Path) -> None:
    for name in ("survey.json", "key.json"):
        (here / "folder" / name).write_text("{}")


VERBS: list[tuple[str, Callable[[Path], object]]] = [
    ("score m data.jsonl --tokens data.jsonl", lambda here: None),
    ("score m folder/score.csv --out folder", lambda here: os.link("data.jsonl", "folder/score.csv")),
    ("score m data.jsonl --tokens m/config.json", lambda here: None),
    ("generate m data.jsonl --out data.jsonl", lambda here: None),
    ("evaluate folder/results.json --out folder", lambda here: os.link("data.jsonl", "folder/results.json")),
    ("evaluate data.jsonl --references folder/report.html --out folder",
     lambda here: os.link("data.jsonl", "folder/report.html")),
    ("ngram build m folder --out folder", lambda here: os.link("data.jsonl", "folder/names.json")),
    ("ngram fit m folder data.jsonl --out data.jsonl", lambda here: None),
    ("ngram fit m folder data.jsonl --out folder/stream.npy", lambda here: Path("folder/stream.npy").touch()),
    ("ngram score m folder data.jsonl --weights other.jsonl --out other.jsonl", lambda here: None),
    ("datastore build m folder/store.json --out folder", lambda here: os.link("data.jsonl", "folder/store.json")),
    ("survey make rating folder/survey.json --out folder", lambda here: os.link("data.jsonl", "folder/survey.json")),
    ("survey results folder data.jsonl --automatic folder/results/results.json",
     lambda here: (Path("folder/results").mkdir(), os.link("data.jsonl", "folder/results/results.json"))),
    ("report folder/results.json --out ./folder/results.json",
     lambda here: Path("folder/results.json").write_text('{"kind": "compare"}')),
    ("inspect m --text data.jsonl --out data.jsonl", lambda here: None),
    ("inspect m --prompt a --json m/tokenizer.json", lambda here: None),
]  # fmt: skip


@pytest.mark.parametrize(("command", "prepare"), VERBS, ids=[" ".join(command.split()[:2]) for command, _ in VERBS])
def test_no_verb_writes_over_what_it_reads(command: str, prepare: Callable[[Path], object], here: Path) -> None:
    Path("m").mkdir()
    for name in ("config.json", "tokenizer.json"):
        Path("m", name).write_text("{}")
    prepare(here)
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 2
    assert "must not be a file that is read" in result.stderr
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before
