"""What a killed process leaves of a file that it wrote is taken away, tried with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import nextword as nw
from nextword.runtime import files
from nextword.runtime.files import replacing, write_atomically
from tests.helpers.word_models import TEXT, word_model, word_tokenizer

WRITER = """
import sys, time
from nextword.runtime import files
with files.replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writes", flush=True)
    time.sleep(60)
"""


def killed(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writes\n"
        process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_killed_score_of_every_token_leaves_nothing_after_the_next(tmp_path: Path) -> None:
    killed(tmp_path / "tokens.jsonl")
    (left,) = names(tmp_path)
    assert left.startswith(".tokens.jsonl.")
    nw.score(word_model(), word_tokenizer(), TEXT, tokens=tmp_path / "tokens.jsonl")
    assert names(tmp_path) == ["tokens.jsonl"]


def test_what_is_being_written_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / ".notes.tmp").write_text("mine")
    with replacing(tmp_path / "first") as file:
        file.write(b"whole")
        write_atomically(tmp_path / "second", "text")
    assert (tmp_path / "first").read_bytes() == b"whole"
    assert names(tmp_path) == [".notes.tmp", "first", "second"]


def test_what_another_machine_may_still_write_stays_for_a_day(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    left = tmp_path / f".results.json.{files._machine()}01234567.tmp"
    left.touch()
    monkeypatch.undo()
    write_atomically(tmp_path / "results.json", "{}")
    assert left.exists()
    long_ago = time.time() - files.LONG_SILENCE - 60
    os.utime(left, (long_ago, long_ago))
    write_atomically(tmp_path / "results.json", "{}")
    assert names(tmp_path) == ["results.json"]
