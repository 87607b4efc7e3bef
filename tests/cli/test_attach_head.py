"""The verb ``attach``: what it prints and writes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nextword as nw
from nextword.cli import app
from tests.helpers.small_datastores import saved_model
from tests.helpers.word_models import WORDS


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


def test_a_corpus_is_put_under_a_model_and_its_shares_are_trained(tmp_path: Path) -> None:
    """From texts to a model that asks them: built, attached and calibrated; then with shares that training learns."""
    pytest.importorskip("pydivsufsort")
    model, index, drawn = saved_model(tmp_path / "model"), tmp_path / "index", random.Random(0)
    lines = [" ".join(drawn.choices(WORDS, k=12)) for _ in range(120)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines), encoding="utf-8")
    valid = tmp_path / "valid.txt"  # what was said before in another order
    valid.write_text("\n".join(f"the {line} dog" for line in reversed(lines)), encoding="utf-8")

    def run(*words: object) -> str:
        done = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return done.stdout

    run("ngram", "build", model, tmp_path / "corpus.txt", "--out", index)
    head = f"ngram:index={index}"
    printed = run("attach", model, "--head", head, "--held", valid, "--out", tmp_path / "informed")
    assert printed.startswith("Chosen: shares=\n  ")
    assert f'ngram:below=softmax,index="{index}": ' in printed
    shares = nw.load(tmp_path / "informed").next_word_head.config.shares
    assert shares[0][0] != shares[-1][0]
    learning = ["data.block=16", "data.window=16", "data.stride=16", "training.trains=head"]
    learning += ["training.learning_rate=0.3", "training.steps=30", "training.batch_size=4"]
    given = ["--data", valid, "--model", model, "--head", f"{head},mix=learned", *learning]
    run("train", *given, "--out", tmp_path / "out")
    learned = nw.load(tmp_path / "out").next_word_head.mixing().detach()
    assert learned[3:5, 0].mean() < 0.8
