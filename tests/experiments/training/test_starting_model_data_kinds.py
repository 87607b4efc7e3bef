"""Which task reads which data, and what is said where none does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict

from nextword.experiments.training.starting_model import data_task
from nextword.experiments.training.train_config import configured
from tests.helpers.killed_trainings import sentences
from tests.helpers.real_data import real_data


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(sentences(60)), encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    lines = sentences(600)
    rows = [json.dumps({"source": one, "target": two}) for one, two in zip(lines[::2], lines[1::2], strict=True)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def task_of(data: Path, *overrides: str, has_encoder: bool = False, **settings: Any) -> Any:
    config = configured({"head": "softmax", "model": "small", "data": str(data), **settings}, overrides)
    return data_task(config, has_encoder)


def test_the_kind_is_seen_from_the_data_and_the_model(text: Path, pairs: Path) -> None:
    assert task_of(text).name == "lm"
    assert task_of(pairs).name == "prompted-pairs"
    assert task_of(pairs, has_encoder=True).name == "seq2seq"
    auxiliary = task_of(
        pairs, "task.summary_field=source", "task.article_field=target", conditioner="bergpt", encoder="e"
    )
    assert auxiliary.name == "expand"
    assert auxiliary.config.encoder == "e"
    assert auxiliary.writes is None


def test_sentences_about_tables_are_pairs() -> None:
    assert task_of(real_data("logicnlg")).name == "prompted-pairs"


def test_fields_that_are_called_otherwise(pairs: Path) -> None:
    renamed = pairs.with_name("renamed.jsonl")
    renamed.write_text(pairs.read_text().replace('"source"', '"question"').replace('"target"', '"answer"'))
    task = task_of(renamed, "task.source_field=question", "task.target_field=answer")
    assert task.name == "prompted-pairs"
    assert task_of(renamed, "task.kind=text", "task.text_column=answer").name == "lm"


@pytest.mark.parametrize("has_encoder", [False, True])
@pytest.mark.parametrize("form", ["saved set", "saved parts", "csv", "parquet"])
def test_pairs_in_other_tables_are_seen_too(pairs: Path, tmp_path: Path, form: str, has_encoder: bool) -> None:
    rows = Dataset.from_json(str(pairs), cache_dir=str(tmp_path / "cache"))
    path = tmp_path / form
    if form == "csv":
        rows.to_csv(path := tmp_path / "rows.csv")
    elif form == "parquet":
        rows.to_parquet(path := tmp_path / "rows.parquet")
    elif form == "saved parts":
        parts = {"train": range(200), "validation": range(200, 250), "test": range(250, 300)}
        DatasetDict({part: rows.select(numbers) for part, numbers in parts.items()}).save_to_disk(path)
    else:
        rows.save_to_disk(path)
    task = task_of(path, has_encoder=has_encoder)
    assert task.name == ("seq2seq" if has_encoder else "prompted-pairs")
    assert sum(len(getattr(task.pairs, part)) for part in ("train", "validation", "test")) == len(rows)


@pytest.mark.parametrize(
    ("overrides", "settings", "message"),
    [
        (
            ["task.kind=texts"],
            {},
            r"task.kind: must be text, .* \('texts' given\). Did you mean 'text'",
        ),
        (["task.blok=3"], {}, r"task.blok: unknown key. Did you mean 'block'\?"),
        (["task.block=1"], {}, r"task.block: must be at least 2 \(1 given\)"),
        (["task.window=8", "task.stride=9"], {}, r"task.stride: must be at most task.window, 8 \(9"),
        (["task.kind=text"], {"conditioner": "bergpt"}, "conditioner: reads an auxiliary text, and data of the kind"),
        ([], {"encoder": "minilm"}, "encoder: reads auxiliary texts, and data of the kind 'text' has none"),
        (["task.kind=auxiliary"], {"has_encoder": True}, "task.kind: 'auxiliary' is for decoder-only models"),
        (["task.generation.prompts=3"], {}, "task.generation: a training writes no texts"),
        (["task.data=nowhere.txt"], {}, "task.data: 'nowhere.txt' does not exist"),
        (["task.kind=pairs"], {}, "task.data: .* has no pairs that can be read"),
    ],
)
def test_what_does_not_fit_is_refused(text: Path, overrides: list[str], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task_of(text, *overrides, **settings)


def test_the_old_names_of_settings_are_read_and_told(text: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = task_of(text, "task.block=8", "task.start.n_layer=1", "task.start.n_head=2").config
    assert not caplog.messages
    settings = {"data": {"path": str(text), "block": 4, "start": {"n_layer": 1}}}
    recipe = {"head": "softmax", "model": "small", **settings}
    assert data_task(configured(recipe, ["data.block=8", "data.start.n_head=2"]), has_encoder=False).config == told
    assert "data.path is called task.data now" in caplog.messages
    assert "data.start.n_head is called task.start.n_head now" in caplog.messages


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "task.data: '.*' is empty"),
        (b"\xff\xfe\x00binary", "task.data: '.*' is not UTF-8 text"),
        (b"one", "task.data: '.*' has 1 lines, and the train split would be empty"),
    ],
)
def test_files_without_text_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        task_of(path)
