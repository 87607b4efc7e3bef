from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import nextword as nw
from nextword.cli import app
from nextword.cli.score import told_apart
from nextword.inference.scoring.measurement import model_passes
from nextword.results.records import ScoreResults
from tests.helpers.word_models import TEXT, WORDS, word_model, word_tokenizer


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["score", *map(str, words)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, a text, and a table of twenty texts."""
    path = tmp_path_factory.mktemp("score")
    for name, model in (("plain", word_model(1)), ("ours", nw.attach(word_model(2), "cache:published"))):
        model.save_pretrained(path / name)
        word_tokenizer().save_pretrained(path / name)
    (path / "text.txt").write_text(TEXT, encoding="utf-8")
    rows = [{"story": f"{TEXT} {word}", "about": word} for word in [*WORDS, *WORDS]]
    (path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.slow
def test_scores_prints_and_writes(folder: Path, tmp_path: Path) -> None:
    given = (folder / "plain", f"mine={folder / 'ours'}", folder / "rows.jsonl", "--field", "text=story")
    done = run(*given, "--out", tmp_path / "out", "--tokens", tmp_path / "tokens.jsonl", "--window", 8)
    assert done.exit_code == 0, done.output
    told = ("30 texts", "mine − plain", "is better (p < 0.001)", "New and repeated tokens", "windows of at most 8")
    assert not [one for one in told if one not in done.output]
    found = ScoreResults.load(tmp_path / "out" / "score.json")
    models = {name: nw.load(folder / path) for name, path in (("plain", "plain"), ("mine", "ours"))}
    texts = [f"{TEXT} {word}" for word in [*WORDS, *WORDS]]
    again = nw.score(models, word_tokenizer(), texts, window=8)
    assert [one.nll for one in found.models] == pytest.approx([one.nll for one in again.models], rel=1e-12)
    assert found["mine"].head == "cache:published"
    assert found.fields == {"text": "story"}
    rows = list(csv.DictReader((tmp_path / "out" / "score.csv").open(encoding="utf-8")))
    assert float(rows[0]["perplexity"]) == found["plain"].perplexity
    assert {row["breakdown"] for row in rows} == {"", *found.breakdowns}
    assert len((tmp_path / "tokens.jsonl").read_text().splitlines()) == 2 * found["mine"].tokens


def test_a_score_says_in_words_what_it_is(folder: Path) -> None:
    models = {"plain": nw.load(folder / "plain"), "ours": nw.load(folder / "ours")}
    plain, ours, difference = str(nw.score(models, word_tokenizer(), [TEXT] * 20)).splitlines()
    assert re.match(r"plain: perplexity \S+ \(\S+ to \S+\), nll \S+ \(\S+ to \S+\), bits_per_byte \S+ \(", plain)
    assert ours.startswith("ours: perplexity ")
    assert re.match(r"ours - plain: nll [+-]\S+ \([+-]\S+ to [+-]\S+\), p = ", difference)


def test_the_same_score_is_replaced_and_another_one_refused(folder: Path, tmp_path: Path) -> None:
    given = (folder / "plain", folder / "text.txt", "--out", tmp_path)
    assert run(*given).exit_code == 0
    written = (tmp_path / "score.json").read_text()
    assert run(*given).exit_code == 0
    other = run(*given, "--window", 5)
    assert other.exit_code == 2
    assert "window: nothing there, 5 asked for" in " ".join(other.output.split())
    assert json.loads((tmp_path / "score.json").read_text())["settings"] == json.loads(written)["settings"]
    renamed = run(f"plain={folder / 'ours'}", folder / "text.txt", "--out", tmp_path)
    assert renamed.exit_code == 2
    (tmp_path / "score.json").write_text('{"kind": "evaluate"}')
    assert "must be of 'nextword score' (evaluate given)" in run(*given).output


def test_models_and_data_are_told_apart(folder: Path) -> None:
    plain, text = str(folder / "plain"), str(folder / "text.txt")
    assert told_apart([text, plain, str(folder)], [], []) == ({"plain": plain}, [text, str(folder)])
    assert told_apart([f"a={plain}", text, "owner/name"], [], []) == (
        {"a": plain, "owner/name": "owner/name"},
        [text],
    )
    assert told_apart([text], [f"b={plain}"], ["owner/set"]) == ({"b": plain}, [text, "owner/set"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{plain}"], "DATA: must be a file of text or a table (none given)"),
        (
            ["{plain}", "text.tx"],
            "(none given, and no file is called text.tx, so it was taken for a model's name",
        ),
        (["{compared}", "{text}"], "but the folder of a comparison; give one of its models: "),
        (["{text}"], "MODEL: must be a folder with config.json or a name on the hub (none given; read as data: "),
        (["{plain}", "missing.txt"], "missing.txt: must be a file or folder that exists (none there)"),
        (["{plain}", "{plain}", "{text}"], "must have a name of its own ('plain' is"),
        (["./nothing", "{text}"], "./nothing: no such folder"),
        (["{plain}", "{empty}"], "(.jsonl, .csv, .tsv, .parquet) (the folder is empty); name the file"),
        (["{half}", "{text}"], "no config.json in it, so this is not a saved model (was saving interrupted?)"),
        (["{plain}", "{text}", "--window", "99"], "window: must be at most 16"),
        (["{plain}", "{text}", "--window", "0"], "window: must be at least 1 (0 given)"),
        (
            ["{plain}", "{text}", "--field", "text"],
            "--field text: must be FIELD=NAME; write it like --field text=story",
        ),
        (["{plain}", "{text}", "--field", "txt=a"], "Did you mean 'text'"),
        (["{plain}", "{text}", "--device", "abacus"], "device: must be auto"),
        (["{plain}", "{plain}/model.safetensors"], "is it a binary file?"),
    ],
)
def test_what_is_wrong_is_one_line(folder: Path, tmp_path: Path, words: list[str], message: str) -> None:
    half = tmp_path / "half"
    half.mkdir()
    (half / "model.safetensors").write_bytes((folder / "plain" / "model.safetensors").read_bytes())
    (empty := tmp_path / "empty").mkdir()
    compared = tmp_path / "compared"
    shutil.copytree(folder / "plain", compared / "trained" / "softmax-mle-seed0" / "model")
    places = {
        "plain": folder / "plain",
        "text": folder / "text.txt",
        "half": half,
        "compared": compared,
        "empty": empty,
    }
    done = run(*(word.format(**places) for word in words), "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


def test_interrupted_it_says_that_nothing_was_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(model_passes, "text_answers", interrupted)
    done = run(folder / "plain", folder / "text.txt", "--out", tmp_path / "out", "--tokens", tmp_path / "tokens.jsonl")
    assert done.exit_code == 130
    assert "nothing was written" in done.output
    assert list(tmp_path.iterdir()) == []


def test_groups_are_explained_when_asked(folder: Path) -> None:
    given = (folder / "plain", folder / "text.txt")
    assert "New: it stands nowhere before." not in " ".join(run(*given).output.split())
    assert "New: it stands nowhere before." in " ".join(run(*given, "--verbose").output.split())
