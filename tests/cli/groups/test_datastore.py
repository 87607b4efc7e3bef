"""``nextword datastore build`` and ``index``: what they write and say, and what is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nextword.cli import app
from nextword.retrieval import FaissSearch, StoredKeys
from tests.helpers.full_disk import room_for
from tests.helpers.small_datastores import DOCUMENTS, saved_model, texts, written
from tests.helpers.word_models import word_tokenizer


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["datastore", *map(str, words)], env={"COLUMNS": "200"})


def built(folder: Path, *further: object) -> Result:
    model, data = saved_model(folder / "model"), written(folder / "data.jsonl", texts())
    return run("build", model, data, "--out", folder / "store", "--window", 16, *further)


def tokens() -> int:
    return sum(len(word_tokenizer()(text)["input_ids"]) for text in texts())


def test_a_store_is_built_and_built_once(tmp_path: Path) -> None:
    words = ("build", saved_model(tmp_path / "model"), written(tmp_path / "data.jsonl", texts()))
    words = (*words, "--out", tmp_path / "store", "--window", 16)
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert f"{tokens()} keys of {DOCUMENTS} documents, 1 of them empty: {tmp_path / 'store'}" in done.output
    keys = StoredKeys(tmp_path / "store")
    assert (len(keys), keys.manifest.origin.window, keys.manifest.origin.precision) == (tokens(), 16, "float16")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "store").glob("shard-*")}
    assert run(*words).exit_code == 0
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "store").glob("shard-*")} == before


def test_options_decide_what_is_stored(tmp_path: Path) -> None:
    """The precision, and the column of a table by its name."""
    data = tmp_path / "named.jsonl"
    data.write_text('{"said": "the king sat", "text": "no"}\n', encoding="utf-8")
    done = run(
        "build", saved_model(tmp_path / "model"), data, "--out", tmp_path / "store", "--precision", "int8",
        "--text-column", "said",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "3 keys of 1 documents: " in done.output
    assert StoredKeys(tmp_path / "store").manifest.origin.precision == "int8"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--precision", "float8"], "error: --precision: must be float16 or int8 ('float8' given)"),
        (["--text-column", "body"], "body"),
        (["--processes", "0"], "error: processes: must be from 1 to 1,024 (0 given)"),
        (["--window", "0"], "error: window: must be at least 1 (0 given)"),
    ],
)
def test_what_cannot_be_built_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    done = built(tmp_path, *words)
    assert done.exit_code == 2
    said = [line for line in done.output.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert message in said[0]
    assert not (tmp_path / "store" / "store.json").exists()


def test_another_model_in_the_folder_is_one_line(tmp_path: Path) -> None:
    assert built(tmp_path).exit_code == 0
    done = run("build", saved_model(tmp_path / "other", seed=1), tmp_path / "data.jsonl", "--out", tmp_path / "store",
               "--window", 16)  # fmt: skip
    assert done.exit_code == 2
    (line,) = done.output.splitlines()
    assert line.startswith(f"error: {tmp_path / 'store'} belongs to another store (model_fingerprint: ")


def test_a_full_disk_is_one_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    words = ("build", saved_model(tmp_path / "model"), written(tmp_path / "data.jsonl", texts()))
    with room_for(3):
        full = run(*words, "--out", tmp_path / "store")
    assert full.exit_code == 2
    assert "No space left on device. Make room and run the same command again; what is finished is kept" in full.output
    done = run(*words, "--out", tmp_path / "store")
    assert done.exit_code == 0, done.output
    assert len(StoredKeys(tmp_path / "store")) == tokens()


def test_an_index_is_made_and_searched(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    built(tmp_path)
    for words, euclidean in (((), True), (("--dot",), False)):
        done = run("index", tmp_path / "store", "--factory", "IVF4,PQ4x4", *words)
        assert done.exit_code == 0, done.output
        path = tmp_path / "store" / ("l2.faiss" if euclidean else "dot.faiss")
        assert f"{path.stat().st_size:,} bytes: {path}" in done.output
        keys = StoredKeys(tmp_path / "store")
        assert FaissSearch(keys, "nprobe=4", euclidean).index.ntotal == len(keys)


def test_an_index_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    done = run("index", tmp_path, "--factory", "Flat")
    assert done.exit_code == 2
    assert "error: store: must be a finished datastore" in done.output
    built(tmp_path)
    done = run("index", tmp_path / "store", "--factory", "IVFmany")
    assert done.exit_code == 2
    assert "error: index: must be one that FAISS can make of" in done.output
