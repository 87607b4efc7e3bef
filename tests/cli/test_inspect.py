from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nextword.cli import app
from nextword.inference.scoring.measurement.all_models import score_models
from nextword.inference.scoring.measurement.data_files import read_texts
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.opened_model import open_model
from nextword.results.records.token_trace import TraceRecord
from tests.helpers.made_up_traces import STORY, MadeUp
from tests.helpers.opened_models import POSITIONS, conditioned, decoder, encoder_decoder
from tests.helpers.text_tokenizers import byte_level

TEXT = "The king sat on the throne. The king stood."


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["inspect", *map(str, words)], env={"COLUMNS": "300", "NEXTWORD_DEBUG": "0"})


def saved(opened: Any, folder: Path) -> Path:
    opened.model.save_pretrained(folder)
    opened.tokenizer.save_pretrained(folder)
    if opened.auxiliary_tokenizer is not None:
        opened.auxiliary_tokenizer.encoder.save_pretrained(folder / "encoder_tokenizer")
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, head in (("plain", "softmax"), ("cache", "cache")):
        saved(decoder(byte_level(), head), folder / name)
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(TEXT + "\n", encoding="utf-8")
    return path


def test_of_a_long_text_the_beginning_is_shown(models: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text(TEXT * 50, encoding="utf-8")
    done = run(
        models / "cache", "--text", long, "--limit", 70, "--out", tmp_path / "page.html", "--json", tmp_path / "t.json"
    )
    assert done.exit_code == 0, done.output
    record = TraceRecord.load(tmp_path / "t.json")
    shown = "".join(record.texts["text"].pieces)
    assert len(record.tokens.rank) == 70
    assert (TEXT * 50).startswith(shown)
    assert f"the first {len(shown)} of {50 * len(TEXT):,} characters of --text (--limit)" in done.output


def test_a_text_becomes_a_page_and_a_trace(models: Path, text: Path, tmp_path: Path) -> None:
    page, trace = tmp_path / "new" / "page.html", tmp_path / "trace.json"
    done = run(models / "cache", "--text", text, "--out", page, "--json", trace, "--candidates", 5, "--positions", 2)
    assert done.exit_code == 0, done.output
    record = TraceRecord.load(trace)
    assert re.fullmatch(
        rf"cache: {len(record.tokens.rank)} tokens, \d+\.\d{{3}} nats per token\nPage: {page}\n", done.output
    )
    assert "".join(record.texts["text"].pieces) == f"{TEXT}\n"
    assert len(record.tokens.candidates.ids[0]) == 5
    assert max(map(len, record.tokens.positions["cache"].at)) <= 2
    assert "cache, token by token" in page.read_text(encoding="utf-8")


def test_a_trace_becomes_the_same_page_again(models: Path, text: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.html", "trace.json", "other.html")]
    assert run(models / "cache", "--text", text, "--out", files[0], "--json", files[1]).exit_code == 0
    done = run(files[1], "--out", files[2])
    assert done.exit_code == 0, done.output
    assert files[2].read_text(encoding="utf-8") == files[0].read_text(encoding="utf-8")


def test_two_models_are_compared_whether_models_or_traces(models: Path, text: Path, tmp_path: Path) -> None:
    traces = [tmp_path / "a.json", tmp_path / "b.json"]
    named = (f"ours={models / 'plain'}", models / "cache")
    done = run(*named, "--text", text, "--out", tmp_path / "1.html", "--json", traces[0], "--json", traces[1])
    assert done.exit_code == 0, done.output
    assert run(*traces, "--out", tmp_path / "2.html").exit_code == 0
    assert run(named[0], traces[1], "--text", text, "--out", tmp_path / "3.html").exit_code == 0
    pages = [(tmp_path / f"{number}.html").read_text(encoding="utf-8") for number in (1, 2, 3)]
    assert "Where they differ" in pages[0]
    assert "ours and cache, token by token" in pages[0]
    assert pages[0] == pages[1] == pages[2]


def test_the_first_model_writes_what_both_are_asked_about(models: Path, tmp_path: Path) -> None:
    traces = [tmp_path / "a.json", tmp_path / "b.json"]
    written = ("--prompt", "The king", "--continue", 6, "--decoding", "greedy", "--out", tmp_path / "page.html")
    done = run(models / "plain", models / "cache", *written, "--json", traces[0], "--json", traces[1])
    assert done.exit_code == 0, done.output
    one, other = map(TraceRecord.load, traces)
    assert one.texts["text"].ids == other.texts["text"].ids
    assert "".join(one.texts["text"].pieces).startswith("The king")


def test_a_model_is_asked_about_what_it_wrote(models: Path, tmp_path: Path) -> None:
    words = ("--prompt", "The king", "--continue", 6, "--json", tmp_path / "x.json", "--out", tmp_path / "x.html")
    done = run(models / "plain", *words)
    assert done.exit_code == 0, done.output
    record = TraceRecord.load(tmp_path / "x.json")
    assert record.tokens.rank == [1] * 6  # greedy


@pytest.mark.slow
def test_a_seed_draws_the_same_text_again(models: Path, tmp_path: Path) -> None:
    def drawn(seed: int) -> list[int]:
        words = ("--prompt", "The king", "--continue", 12, "--decoding", "sample", "--seed", seed)
        assert run(models / "plain", *words, "--out", tmp_path / "x.html", "--json", tmp_path / "x.json").exit_code == 0
        return TraceRecord.load(tmp_path / "x.json").texts["text"].ids

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize("content", [f"{TEXT}\n", f"\ufeff{TEXT}\r\n\r\n", TEXT])
def test_a_file_is_the_same_tokens_as_to_score(models: Path, tmp_path: Path, content: str) -> None:
    text, lines = tmp_path / "story.txt", tmp_path / "tokens.jsonl"
    text.write_bytes(content.encode())
    done = run(models / "plain", "--text", text, "--json", tmp_path / "x.json", "--out", tmp_path / "x.html")
    assert done.exit_code == 0, done.output
    score_models([partial(open_model, models / "plain")], read_texts([str(text)]), ScoreSettings(), tokens=lines)
    record = TraceRecord.load(tmp_path / "x.json")
    scored = [json.loads(line)["id"] for line in lines.read_text(encoding="utf-8").splitlines()]
    assert record.texts["text"].ids[record.first :] == scored
    assert "".join(record.texts["text"].pieces) == content.removeprefix("\ufeff")


def test_source_and_target(text: Path, tmp_path: Path) -> None:
    model = saved(encoder_decoder("bart", "pg"), tmp_path / "model")
    target = tmp_path / "target.txt"
    target.write_text("The king stood.", encoding="utf-8")
    done = run(model, "--source", text, "--target", target, "--out", tmp_path / "x.html", "--json", tmp_path / "x.json")
    assert done.exit_code == 0, done.output
    record = TraceRecord.load(tmp_path / "x.json")
    assert "".join(record.texts["source"].pieces) == TEXT
    assert "".join(record.texts["text"].pieces) == "The king stood."


def test_an_auxiliary_text(text: Path, tmp_path: Path) -> None:
    model = saved(conditioned("softmax"), tmp_path / "model")
    done = run(model, "--text", text, "--auxiliary", text, "--out", tmp_path / "x.html")
    assert done.exit_code == 0, done.output


def test_a_text_longer_than_the_model_is_read_in_windows(models: Path, text: Path, tmp_path: Path) -> None:
    text.write_text("The king. " * POSITIONS)
    done = run(models / "cache", "--text", text, "--out", tmp_path / "x.html")
    assert done.exit_code == 0, done.output
    assert f"in windows of {POSITIONS} tokens, which overlap by half" in (tmp_path / "x.html").read_text()


# -- what is wrong is said in one line, before anything is written


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"--text: '.*story.txt' does not exist"),
        (b"", r"--text: '.*story.txt': must have a text \(an empty file given\)"),
        (b" \n\n", r"--text: '.*story.txt': must have a text \(an empty file given\)"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", r"--text: '.*story.txt' is not UTF-8 text .*; is it a binary file\?"),
        (b"PK\x03\x04 \x00 text", r"--text: '.*story.txt': must be a text or a table \(an archive"),
        (b"A \x00 text", r"--text: '.*story.txt': must be text \(a zero byte at 2\); is it a binary file\?"),
        (b"x", r"--text: must have at least 2 tokens \(1 given\)"),
    ],
)
def test_a_wrong_text(models: Path, text: Path, tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is None:
        text.unlink()
    else:
        text.write_bytes(content)
    page = tmp_path / "page.html"
    page.write_text("as it was")
    done = run(models / "cache", "--text", text, "--out", page, "--json", tmp_path / "x.json")
    assert done.exit_code == 2, done.output
    assert re.search(message, done.output), done.output
    assert len(done.output.splitlines()) == 1
    assert page.read_text() == "as it was"
    assert not (tmp_path / "x.json").exists()


def test_wrong_models(models: Path, text: Path, tmp_path: Path) -> None:
    def said(*words: object) -> str:
        done = run(*words, "--out", tmp_path / "page.html")
        assert done.exit_code == 2, done.output
        assert not (tmp_path / "page.html").exists()
        return done.output

    assert "no such folder" in said(tmp_path / "nothing", "--text", text)
    (tmp_path / "half").mkdir()
    assert "no config.json in it" in said(tmp_path / "half", "--text", text)
    assert "must be one model or two (3 given)" in said(*[models / "cache"] * 3, "--text", text)
    assert "--text: must be a file (none given)" in said(models / "cache")
    (tmp_path / "half.json").write_text('{"format": "nextword-trace/1", "nextw')
    assert "half.json is not JSON" in said(tmp_path / "half.json")
    assert "nothing.json does not exist" in said(tmp_path / "nothing.json")


def test_a_model_whose_weights_are_half_written(models: Path, text: Path, tmp_path: Path) -> None:
    half = saved(decoder(byte_level(), "cache"), tmp_path / "half")
    weights = half / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    done = run(half, "--text", text, "--out", tmp_path / "page.html")
    assert done.exit_code == 2, done.output
    assert not (tmp_path / "page.html").exists()


def test_other_tokens_are_refused(tmp_path: Path) -> None:
    MadeUp(STORY).record("one").save(tmp_path / "one.json")
    MadeUp(STORY[:200]).record("other").save(tmp_path / "other.json")
    done = run(tmp_path / "one.json", tmp_path / "other.json", "--out", tmp_path / "page.html")
    assert done.exit_code == 2
    assert "must be of the same token ids" in done.output
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--text", "story.txt", "--continue", "5"], "--continue, --decoding, --draft: must be left out with --text"),
        (["--text", "story.txt", "--draft", "head"], "--continue, --decoding, --draft: must be left out with --text"),
        (["--prompt", "The", "--draft", "heed"], "Did you mean 'head'"),
        (["cache", "--prompt", "The", "--draft", "head"], r"--draft: must go with one model \(2 given\)"),
        (["story.txt"], r"MODEL: must be .* \(the file story.txt given\); give a text as --text story.txt"),
        (["--prompt", "The", "--decoding", "top-x:3"], "'top-x:3' is not a decoding"),
        (["--text", "story.txt", "--out", "folder"], r"--out folder: must be a file to write \(folder is a folder\)"),
        (["--text", "story.txt", "--out", "story.txt/x"], r"must be a file to write \(.*story.txt is a file\)"),
        (["--text", "story.txt", "--out", "story.txt"], "--out story.txt: must not be a file that is read"),
        (["--text", "story.txt", "--json", "a", "--json", "b"], r"once for each model \(2 given for 1\)"),
        (["--text", "story.txt", "--json", "page.html", "--out", "page.html"], "must be different files"),
        (["trace.json", "--text", "story.txt", "--json", "trace.json"], "must not be a file that is read"),
    ],
)
def test_words_that_cannot_be_meant(
    models: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "trace.json").touch()
    done = run(models / "cache", *words)
    assert done.exit_code == 2, done.output
    assert re.search(message, done.output), done.output
    assert text.read_text() == TEXT + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "story.txt", "trace.json"]


def test_an_interruption_writes_nothing(
    models: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nextword.inference.inspection.trace_example.trace", interrupted)
    done = run(models / "cache", "--text", text, "--out", tmp_path / "page.html")
    assert done.exit_code == 130
    assert "nothing was written" in done.output
    assert not (tmp_path / "page.html").exists()
