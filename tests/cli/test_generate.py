from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from nextword.cli import app
from tests.helpers.writing_models import LOUD_CACHE, opened_model


def run(*words: object, piped: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["generate", *map(str, words)], input=piped)


def saved(folder: Path, **wanted: object) -> Path:
    opened = opened_model(**wanted)
    opened.model.float().save_pretrained(folder)
    opened.tokenizer.save_pretrained(folder)
    if opened.auxiliary_tokenizer is not None:
        opened.tokenizer.save_pretrained(folder / "encoder_tokenizer")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("model"), head=LOUD_CACHE)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_prompts_come_from_options_files_and_pipes(model: Path, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("The king\na\n")
    (tmp_path / "p.jsonl").write_text('{"id": 0, "question": "The king"}\n{"id": 1, "question": "a"}\n')
    asked = ("--max-new-tokens", 5, "--decoding", "top-k:4")
    found = [
        run(model, "--prompt", "The king", "--prompt", "a", *asked),
        run(model, tmp_path / "p.txt", *asked),
        run(model, "-", *asked, piped="The king\na\n"),
        run(model, *asked, piped="The king\na\n"),
        run(model, tmp_path / "p.jsonl", "--field", "prompt=question", *asked),
    ]
    assert {done.exit_code for done in found} == {0}, found[0].output
    assert len({done.stdout for done in found}) == 1
    assert found[0].stdout.count("--- prompt") == 2
    assert "--- prompt 0, top-k 4, seed 0, sample 0\n" in found[0].stdout


def test_one_text_is_printed_after_its_prompt_as_on_a_terminal(model: Path, tmp_path: Path) -> None:
    done = run(model, "--prompt", "The king", "--max-new-tokens", 5, "--decoding", "greedy")
    run(model, "--prompt", "The king", "--max-new-tokens", 5, "--decoding", "greedy", "--out", tmp_path / "a.jsonl")
    written = lines(tmp_path / "a.jsonl")[0]["text"]
    assert written
    assert done.stdout.startswith("The king")
    assert done.stdout.removeprefix("The king").strip() == written.strip()


def test_samples_files_are_written_and_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "The king", "reference": " and the queen"}\n')
    done = run(
        model, tmp_path / "p.jsonl", "--decoding", "greedy", "--decoding", "sample", "--seed", 1, "--seed", 2,
        "--samples", 2, "--sources", "--score-references", "--max-new-tokens", 4, "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    names = ["greedy.jsonl", "sample-seed-1.jsonl", "sample-seed-2.jsonl"]
    assert [Path(line).name for line in done.stdout.splitlines()] == names
    line = lines(tmp_path / "out" / "sample-seed-1.jsonl")[1]
    assert {"shares", "positions", "log_probs", "references", "reference_token_ids", "seed", "sample"} <= set(line)
    evaluated = CliRunner().invoke(
        app,
        ["evaluate", *(str(tmp_path / "out" / name) for name in names[:1]), "--metrics", "likelihood,distinct",
         "--out", str(tmp_path / "e")],
    )  # fmt: skip
    assert evaluated.exit_code == 0, evaluated.output


def test_encoder_decoder_and_conditioned_models(tmp_path: Path) -> None:
    t5 = saved(tmp_path / "t5", family="t5", head="pg")
    assert run(t5, "--prompt", "The king", "--max-new-tokens", 4).exit_code == 0
    dau = saved(tmp_path / "dau", conditioner="dau")
    (tmp_path / "p.jsonl").write_text('{"prompt": "The king", "auxiliary": "a dragon"}\n{"auxiliary": "a queen"}\n')
    done = run(dau, tmp_path / "p.jsonl", "--max-new-tokens", 4, "--out", tmp_path / "o.jsonl")
    assert done.exit_code == 0, done.output
    assert [line["auxiliary"] for line in lines(tmp_path / "o.jsonl")] == ["a dragon", "a queen"]
    refused = run(dau, "--prompt", "The king")
    assert refused.exit_code == 2
    assert "follows an auxiliary text, and there is none" in refused.output


def test_a_plain_model_of_transformers(tmp_path: Path) -> None:
    opened = opened_model()
    opened.model.backbone.float().save_pretrained(tmp_path / "plain")
    opened.tokenizer.save_pretrained(tmp_path / "plain")
    assert run(tmp_path / "plain", "--prompt", "", "--max-new-tokens", 4, "--dtype", "bfloat16").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--prompt", "a", "--max-new-tokens", 80), "set --max-new-tokens to at most 47"),
        (("--prompt", "a", "p.txt"), "--prompt and a file of prompts are both given"),
        (("missing.txt",), "missing.txt does not exist"),
        (("empty.txt",), "empty.txt must have one JSON object per line, or plain text (the file is empty)"),
        (("binary.txt",), "not UTF-8 text"),
        ((), "standard input is empty"),
        (("--prompt", "a", "--set", "repetition_penalti=2"), "Did you mean 'repetition_penalty'"),
        (("--prompt", "a", "--decoding", "top-q:2"), "'top-q:2' is not a decoding"),
        (("--prompt", "a", "--sources"), "give --out"),
        (("--prompt", "a", "--chat", "--max-new-tokens", 3), "has no chat template"),
        (("--prompt", "a", "--max-new-tokens", 0), "max_new_tokens: must be at least 1"),
        (("--prompt", "a", "--remember", 5), "must have the head knn ('cache' given)"),
        (("p.jsonl", "--field", "prompt"), "write it like --field prompt=question"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    Path("binary.txt").write_bytes(bytes(range(255)))
    Path("p.jsonl").write_text('{"question": "a"}\n')
    before = sorted(tmp_path.rglob("*"))
    done = run(model, *words, *([] if "--sources" in words else ["--out", "out"]))
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert done.output.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_model_half_written_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "--prompt", "a")
    assert done.exit_code == 2
    assert "no config.json in it" in done.output


def test_a_model_that_diverged_is_refused_in_one_line(tmp_path: Path) -> None:
    opened = opened_model()
    with torch.no_grad():
        opened.model.get_input_embeddings().weight.fill_(float("nan"))
    opened.model.float().save_pretrained(tmp_path / "m")
    opened.tokenizer.save_pretrained(tmp_path / "m")
    done = run(tmp_path / "m", "--prompt", "a", "--max-new-tokens", 3)
    assert done.exit_code == 2
    assert "are not finite numbers; take a checkpoint from before the model diverged" in done.output
    assert done.output.count("\n") == 1


def test_ctrl_c_says_how_to_go_on(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nextword.inference.generation.generator import Generator

    monkeypatch.setattr(sys, "argv", ["nextword", "generate", "m"])
    whole = Generator.write
    calls: list[int] = []

    def interrupted(self: Generator, *words: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(self, *words)  # type: ignore[arg-type]

    words = (model, "--prompt", "a", "--prompt", "The king", "--batch-size", 1, "--max-new-tokens", 3, "--out")
    monkeypatch.setattr(Generator, "write", interrupted)
    done = run(*words, tmp_path / "o.jsonl")
    assert done.exit_code == 130
    assert "interrupted: the finished texts are kept" in done.output
    assert "To resume: nextword" in done.output
    assert [path.name for path in tmp_path.glob("*.jsonl*")] == ["o.jsonl.partial"]
    assert run(*words, tmp_path / "o.jsonl").exit_code == 0
    assert len(calls) == 3
    assert run(*words, tmp_path / "other.jsonl").exit_code == 0
    assert (tmp_path / "o.jsonl").read_bytes() == (tmp_path / "other.jsonl").read_bytes()


KILLED = """
import os, signal, sys
from nextword.inference.generation.samples_files import PartialSamples
append, left = PartialSamples.append, [int(sys.argv.pop(1))]
def killed(self, lines):
    append(self, lines)
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
PartialSamples.append = killed
from nextword.cli import app
app()
"""


@pytest.mark.slow
def test_killed_the_same_command_goes_on_to_the_same_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("".join(f"The king {number}\n" for number in range(6)))
    words = ("generate", str(model), str(tmp_path / "p.txt"), "--decoding", "sample", "--max-new-tokens", "5",
             "--batch-size", "2", "--out")  # fmt: skip
    assert run(*words[1:], tmp_path / "whole.jsonl").exit_code == 0
    command = [sys.executable, "-c", KILLED, "2", *words, str(tmp_path / "cut.jsonl")]
    died = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    partial = tmp_path / "cut.jsonl.partial"
    assert len(partial.read_bytes().splitlines()) == 5
    with partial.open("ab") as file:  # a line that was being written
        file.write(b'[5, {"id": 5, "pro')
    assert run(*words[1:], tmp_path / "cut.jsonl").exit_code == 0
    assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("colour", [True, False])
def test_on_a_terminal_a_single_text_is_coloured_by_source(model: Path, colour: bool) -> None:
    ours, theirs = pty.openpty()
    words = (str(model), "--prompt", "The king", "--max-new-tokens", "5", "--decoding", "greedy")
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        **({} if colour else {"NO_COLOR": "1"}),
    }
    command = [sys.executable, "-m", "nextword", "generate", *words]
    done = subprocess.run(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    os.close(theirs)
    shown = b""
    while True:
        try:
            block = os.read(ours, 4096)
        except OSError:
            break
        shown += block
        if not block:
            break
    text = run(*words).stdout.strip()
    if colour:
        assert b"\x1b[38;2;86;180;233m" in shown
        assert b"came from" in shown
    else:
        assert b"\x1b" not in shown
        assert shown.decode().strip() == text
