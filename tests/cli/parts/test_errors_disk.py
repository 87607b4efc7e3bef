"""A full disk that no writer of a file has named ends a command in one sentence all the same."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import datasets
import pytest
import typer
from safetensors import SafetensorError
from typer.testing import CliRunner

from nextword.cli.parts.errors import plain_errors
from nextword.results.records import DiskFullError
from nextword.runtime.corpora import open_corpus, readable
from tests.helpers.full_disk import small_disk

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "problem",
    [FULL, SafetensorError("I/O error: No space left on device (os error 28)"), RuntimeError("iostream error")],
    ids=["python", "safetensors", "torch"],
)
def test_it_is_one_line_whichever_library_meets_it(problem: Exception) -> None:
    app = typer.Typer()

    @app.command()
    @plain_errors
    def write() -> None:
        raise problem

    done = CliRunner().invoke(app)
    assert done.exit_code == 2
    line = " ".join(done.output.split())
    assert line.startswith("error: standard output, or a temporary file, cannot be written: ")
    assert line.endswith("Make room and run the same command again; what is finished is kept")


def test_what_a_full_disk_caused_is_a_full_disk() -> None:
    with (
        pytest.raises(DiskFullError, match=r"HF_DATASETS_CACHE\)"),
        readable("a.jsonl"),
    ):
        raise datasets.exceptions.DatasetGenerationError("An error occurred while generating the dataset") from FULL


def test_a_table_for_which_the_cache_has_no_room_is_no_unreadable_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(f'{{"text": "{number} {"word " * 200}"}}\n' for number in range(5000)), encoding="utf-8")
    with small_disk(tmp_path / "cache", 1 << 20) as cache:
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
        with pytest.raises(DiskFullError, match=f"{cache} .* cannot be written: No space left"):
            open_corpus(data, "data", streaming=False)
