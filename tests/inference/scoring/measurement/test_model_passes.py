from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nextword as nw
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.measurement import block_sums, score_checkpoint
from nextword.inference.scoring.measurement.all_models import score_models
from nextword.inference.scoring.measurement.data_files import ChangedError, GivenTexts, read_texts
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.results.records import DiskFullError, ScoreResults, locked
from nextword.runtime import resumable
from tests.helpers.full_disk import largest_file
from tests.helpers.word_models import TEXT, WORDS, word_model, word_tokenizer

TEXTS = [f"{TEXT} {word} {TEXT[: 7 * place]}" for place, word in enumerate([*WORDS, *WORDS])]


class Stop(Exception):  # noqa: N818
    """A score is killed."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    for name, model in (("plain", word_model(1)), ("ours", nw.attach(word_model(2), "cache"))):
        model.save_pretrained(folder / name)
        word_tokenizer().save_pretrained(folder / name)
    return {name: str(folder / name) for name in ("plain", "ours")}


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk has three texts or four."""
    monkeypatch.setattr(score_checkpoint, "CHUNK_BYTES", 600)


def killed(after: int):
    """A progress callback that stops the score; the list holds what it was told."""
    told: list[tuple[str, float]] = []

    def progress(name: str, share: float) -> None:
        told.append((name, share))
        if len(told) == after:
            raise Stop

    return told, progress


def numbers(results: ScoreResults) -> dict[str, object]:
    """All that was measured."""
    return {"models": [one.model_dump() for one in results.models], "differences": results.differences}


def scored(models: dict[str, str], texts: list[str] = TEXTS, **given: object) -> ScoreResults:
    return nw.score(models, None, texts, window=8, **given)


@pytest.mark.slow
@pytest.mark.usefixtures("_small_chunks")
def test_the_size_of_chunks_changes_no_number(models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = scored(models)
    monkeypatch.setattr(score_checkpoint, "CHUNK_BYTES", 10**6)
    whole = scored(models)
    assert [one.nll for one in found.models] == pytest.approx([one.nll for one in whole.models], rel=1e-12)
    for a, b in zip(found.models, whole.models, strict=True):
        assert a.tokens == b.tokens
        assert a.breakdowns.keys() == b.breakdowns.keys()
        for key in a.breakdowns:
            assert [(one.group, one.tokens) for one in a.breakdowns[key]] == [
                (one.group, one.tokens) for one in b.breakdowns[key]
            ]
            of_a, of_b = ([one.nats for one in model.breakdowns[key]] for model in (a, b))
            assert of_a == pytest.approx(of_b, rel=1e-9)
    assert [(one.group, one.difference) for one in found.differences] == [
        (one.group, pytest.approx(one.difference, rel=1e-9)) for one in whole.differences
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("_small_chunks")
def test_processes_give_the_same_numbers(models: dict[str, str]) -> None:
    one = {"ours": models["ours"]}
    here, shared = scored(one), scored(one, processes=2)
    assert shared.nll == pytest.approx(here.nll, rel=1e-9)
    assert shared.models[0].tokens == here.models[0].tokens


@pytest.mark.slow
@pytest.mark.usefixtures("_small_chunks")
def test_any_number_of_processes_gives_the_same_numbers(models: dict[str, str]) -> None:
    first, *others = (scored(models, processes=count) for count in (1, 2, 4))
    assert all(numbers(one) == numbers(first) for one in others)  # to the bit: each has one thread
    assert [one.nll for one in first.models] == pytest.approx([one.nll for one in scored(models).models], rel=1e-9)


@pytest.mark.few(1)
@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("saves", [0.0, 1e9], ids=["at every chunk", "when interrupted"])
def test_a_killed_score_goes_on(
    saves: float, models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "SAVE_SECONDS", saves)
    whole = scored(models)
    told: list[tuple[str, float]] = []
    for kill in (4, 15, 40, 45):  # while tokens are counted; while the first model scores; with the second at work
        told, progress = killed(kill)
        with pytest.raises(Stop):
            scored(models, out=tmp_path, progress=progress)
        assert not (tmp_path / "score.json").exists()
        assert (tmp_path / score_checkpoint.NAME).exists()
    told, progress = killed(10**6)
    found = scored(models, out=tmp_path, progress=progress)
    assert numbers(found) == numbers(whole)
    assert ScoreResults.load(tmp_path / "score.json") == found
    assert not (tmp_path / score_checkpoint.NAME).exists()
    shares = [share for name, share in told if name == "ours"]
    assert shares[-1] == 1
    assert shares == sorted(shares)


@pytest.mark.slow
def test_a_command_killed_with_its_processes_goes_on(models: dict[str, str], tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS * 40), encoding="utf-8")
    program = (
        "from nextword.inference.scoring.measurement import score_checkpoint\n"
        "from nextword.runtime import resumable\n"
        "if __name__ == '__main__':\n"
        "    score_checkpoint.CHUNK_BYTES, resumable.SAVE_SECONDS = 600, 0.0\n"
        "    from nextword.cli import app\n"
        "    app()\n"
    )
    words = [models["plain"], str(data), "--window", "8", "--processes", "2"]
    script = tmp_path / "run.py"
    script.write_text(program, encoding="utf-8")
    command = [sys.executable, str(script), "score", *words]
    out = tmp_path / "killed"
    with subprocess.Popen([*command, "--out", str(out)], start_new_session=True) as running:
        partial = out / score_checkpoint.NAME
        while not partial.exists() or not json.loads(str(np.load(partial)["about"]))["models"][0]["scored"]:
            assert running.poll() is None, "it was done before it could be killed"
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGKILL)
    assert not (out / "score.json").exists()
    for folder in (out, tmp_path / "whole"):
        subprocess.run([*command, "--out", str(folder)], check=True)
    found, whole = (ScoreResults.load(folder / "score.json") for folder in (out, tmp_path / "whole"))
    assert numbers(found) == numbers(whole)


@pytest.mark.usefixtures("_small_chunks")
def test_going_on_otherwise_is_refused(models: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(Stop):
        scored(models, out=tmp_path, progress=killed(20)[1])
    with pytest.raises(ValueError, match=r"score\.partial\.npz"):
        scored(models, [*TEXTS[1:], TEXTS[0]], out=tmp_path)
    with pytest.raises(ValueError, match=r"\(settings\.window"):
        nw.score(models, None, TEXTS, window=7, out=tmp_path)
    with pytest.raises(ValueError, match=r"\('plain'"):
        scored({"plain": models["ours"], "ours": models["plain"]}, out=tmp_path)
    partial = tmp_path / score_checkpoint.NAME
    partial.write_bytes(partial.read_bytes()[:200])
    with pytest.raises(ValueError, match="unfinished"):
        scored(models, out=tmp_path)


@pytest.mark.usefixtures("_small_chunks")
def test_a_model_that_was_trained_on_meanwhile_is_refused(tmp_path: Path) -> None:
    model = word_model()
    with pytest.raises(Stop):
        nw.score(model, word_tokenizer(), TEXTS, out=tmp_path, progress=killed(9)[1])
    model.transformer.h[1].mlp.c_fc.weight.data[0, 0] += 0.25
    with pytest.raises(ValueError, match="its weights were changed"):
        nw.score(model, word_tokenizer(), TEXTS, out=tmp_path)


@pytest.mark.usefixtures("_small_chunks")
def test_data_that_changes_while_it_is_scored_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    given = read_texts([str(path)])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"text": "the old dog"}\n')
    opened = OpenedModel.of(word_model(), word_tokenizer())
    with pytest.raises(ChangedError, match=r"rows\.jsonl:.*changed"):
        score_models([lambda: opened], given, ScoreSettings(), out=tmp_path / "out")
    assert not (tmp_path / "out" / score_checkpoint.NAME).exists()


def test_two_scores_in_one_folder_are_refused(tmp_path: Path) -> None:
    with locked(tmp_path, "nextword score ..."), pytest.raises(ValueError, match="is in use by process"):
        nw.score(word_model(), word_tokenizer(), TEXT, out=tmp_path)


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with (
        largest_file(2000),
        pytest.raises(DiskFullError, match=r"score\.\S+ cannot"),
    ):
        nw.score(word_model(), word_tokenizer(), TEXTS, out=tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("_small_chunks")
def test_few_texts_are_in_memory_at_once() -> None:
    alive, most = 0, 0

    def gone() -> None:
        nonlocal alive
        alive -= 1

    def read() -> Iterator[Example]:
        nonlocal alive, most
        for text in TEXTS * 5:
            example = Example(text)
            weakref.finalize(example, gone)
            alive += 1
            most = max(most, alive)
            yield example

    opened = OpenedModel.of(word_model(), word_tokenizer())
    found = score_models([lambda: opened], GivenTexts.of_reading(read, ["texts"]), ScoreSettings())
    assert found.texts == 5 * len(TEXTS)
    assert most < 20


def test_neighbours_are_drawn_together_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_sums, "MOST_UNITS", 8)
    found = nw.score(word_model(), word_tokenizer(), TEXTS)
    assert (found.unit, found.units) == ("blocks of 4 texts", 8)
    low, high = found.models[0].values["nll"].low, found.models[0].values["nll"].high
    assert low < found.nll < high
    long = " ".join([TEXT] * 200)
    found = nw.score(word_model(), word_tokenizer(), [long, TEXT])
    assert (found.unit, found.units) == ("pieces of 4,096 bytes", -(-len(long) // 4096) + 1)


def test_what_must_not_be_shared_is_refused() -> None:
    with pytest.raises(ValueError, match=r"processes:.*\(GPT2LMHeadModel given"):
        nw.score(word_model(), word_tokenizer(), TEXT, processes=2)
