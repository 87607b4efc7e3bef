"""``nextword states build``: what it writes and says, where nobody watches, with a full disk and after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nextword.cli import app
from nextword.model.stored_states.state_files import StoredStates
from tests.helpers import text_tokenizers
from tests.helpers.full_disk import room_for
from tests.helpers.killed_trainings import sentences
from tests.helpers.stored_rows import backbone


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    tokenizer = text_tokenizers.byte_level()
    backbone("llama", len(tokenizer)).float().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n".join(sentences(200)), encoding="utf-8")
    task = [f"task.{name}=16" for name in ("block", "window", "stride")]
    return [tmp_path / "model", tmp_path / "text.txt", *task, "--out", tmp_path / "states"]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["states", "build", *map(str, words)], env={"COLUMNS": "300"})


def test_beginning_and_end_are_lines_in_a_log(tmp_path: Path, words: list[object]) -> None:
    done = run(*words)
    assert done.exit_code == 0, done.output
    store = StoredStates(tmp_path / "states")
    began = done.stderr.splitlines()
    assert began[0] == f"opening {tmp_path / 'model'} and reading {tmp_path / 'text.txt'}"
    assert f"storing the states of {store.manifest.tokens:,} tokens in {tmp_path / 'states'}" in began
    assert done.stdout.startswith(f"{store.manifest.tokens:,} tokens in {len(store):,} rows")


def test_a_full_disk_is_one_line_and_the_same_command_resumes(tmp_path: Path, words: list[object]) -> None:
    with room_for(5):
        full = run(*words)
    assert full.exit_code == 2
    assert "No space left on device" in full.stderr.splitlines()[-1]
    assert not (tmp_path / "states" / "states.json").exists()
    assert run(*words).exit_code == 0
    assert len(StoredStates(tmp_path / "states"))
