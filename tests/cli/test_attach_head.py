"""The verb ``attach``: what it prints and writes."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

import nextword as nw
from nextword.cli import app
from tests.helpers.small_datastores import saved_model


def test_a_cache_is_put_on_a_model(tmp_path: Path) -> None:
    model, text = saved_model(tmp_path / "model"), tmp_path / "valid.txt"
    text.write_text("the queen sat on a horse and the king saw the queen ran far", encoding="utf-8")
    given = ["attach", str(model), "--head", "cache", "--held", str(text), "--out", str(tmp_path / "cache")]
    done = CliRunner().invoke(app, given, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(("Chosen: temperature=", "Nothing helps: weight=0"))
    assert "one pass" in done.output
    assert nw.load(tmp_path / "cache").next_word_head.config.head == "cache"
    again = CliRunner().invoke(app, given, env={"COLUMNS": "200"})
    assert again.exit_code == 2
    assert "out: must be a new folder" in again.output


def test_without_held_out_text_it_says_what_could_be_chosen(tmp_path: Path) -> None:
    model = saved_model(tmp_path / "model")
    given = ["attach", str(model), "--head", "cache", "--out", str(tmp_path / "cache")]
    done = CliRunner().invoke(app, given)
    assert f"nextword attach {model} --head cache --held TEXT" in done.output
    given = ["attach", str(model), "--head", "mos:2", "--out", str(tmp_path / "mos")]
    assert "--held" not in CliRunner().invoke(app, given).output
