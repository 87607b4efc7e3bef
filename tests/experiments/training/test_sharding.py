"""Several processes: the same gradients, the same model, and one folder."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import nextword as nw
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.sharding import save_whole, shard, share_vocabulary, whole_model
from nextword.experiments.training.trainer_arguments import expect_available
from nextword.functional.frequency import TokenCounts
from nextword.results.records import Results
from tests.helpers import parity
from tests.helpers.killed_trainings import SMALL, sentences, train, train_with_files
from tests.helpers.ranks import ranks

ROOT = Path(__file__).parents[3]


def launched(count: int, *words: str) -> subprocess.Popen[str]:
    """So many processes, as torchrun starts them."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.Popen(
        [*run, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=ROOT
    )


def output_of(process: subprocess.Popen[str], seconds: float = 300) -> str:
    said, _ = process.communicate(timeout=seconds)
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "cases"),
    [
        pytest.param(2, parity.FEW, id="2"),
        pytest.param(4, parity.FEW, id="4", marks=pytest.mark.slow),
        pytest.param(2, parity.every_case(), id="2-all", marks=pytest.mark.slow),
        *(
            pytest.param(4, parity.every_case(backbone), id=f"4-{backbone}", marks=pytest.mark.slow)
            for backbone in parity.BACKBONES
        ),
    ],
)
def test_losses_and_gradients_are_those_of_one_process(
    count: int, cases: tuple[parity.Case, ...], tmp_path: Path
) -> None:
    """DDP and FSDP2, in one pass and in two, tied and untied, with texts of different lengths in each process.

    And an output embedding divided over the vocabulary.
    """
    counts = tmp_path / "counts.npz"
    TokenCounts(np.array([100 // (rank + 1) + 1 for rank in range(50)]), None, "made up").save(counts)
    assert ranks(count, parity.found_together, str(tmp_path), cases, seconds=1000) == [0] * count
    together = torch.load(tmp_path / "together.pt", weights_only=False)
    expected = {
        dtype: {case: parity.gradients(case, "one", str(counts), dtype=dtype) for case in cases}
        for dtype in (torch.float64, torch.float32)
    }
    different = []
    for way, dtype, found in together["losses"]:
        assert len(found) > len(cases) / 2
        for case, pair in found.items():
            said = differences(*pair, *expected[dtype][case], {torch.float64: 1e-12, torch.float32: 1e-6}[dtype])
            different += [f"{way} {dtype} {case}: {one}" for one in said]
    assert not different, "\n".join(different)
    for head, right in parity.logits("one", str(counts)).items():
        torch.testing.assert_close(together["logits"][head], right, rtol=1e-12, atol=1e-12)


def differences(
    loss: torch.Tensor,
    gradients: dict[str, torch.Tensor],
    right_loss: torch.Tensor,
    right: dict[str, torch.Tensor],
    tolerance: float,
) -> Iterator[str]:
    """Loss and gradients farther off than ``tolerance`` times the largest one; who has none has zeros under FSDP2."""
    assert set(right) <= set(gradients)
    if not abs(loss - right_loss) <= tolerance * right_loss:
        yield f"loss {loss} instead of {right_loss}"
    largest = max(float(gradient.abs().max()) for gradient in right.values())
    for name, gradient in gradients.items():
        off = float((gradient - right.get(name, torch.zeros_like(gradient))).abs().max())
        if not off <= tolerance * largest:
            yield f"{name} off by {off / largest:.1e}"


TRAINING = ("training.steps=8", "training.batch_size=4", "training.save_every=3", "training.log_every=1")
"""Within one epoch, whose last batch several processes fill up."""


def command(folder: Path, *words: str) -> list[str]:
    data = folder / "book.txt"
    if not data.exists():
        generator = np.random.default_rng(0)
        words_of = [f"word{n}" for n in range(40)]
        lines = [" ".join(generator.choice(words_of, 12)) + "." for _ in range(400)]
        data.write_text("\n\n".join(lines), encoding="utf-8")
    asked = ["--data", str(data), "--model", "small", "--head", "cache", "--objective", "histalign"]
    return ["-m", "nextword", "train", *asked, *TRAINING, *words]


def losses(folder: Path) -> list[float]:
    return [point["loss"] for point in json.loads((folder / "record.json").read_text(encoding="utf-8"))["curve"]]


@pytest.fixture(scope="module")
def trained_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data and ``one``, a training of one process."""
    folder = tmp_path_factory.mktemp("trained")
    process = subprocess.run(
        [sys.executable, *command(folder, "--out", str(folder / "one"))],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return folder


FSDP = ("training.fsdp=true",)
REDUCED = ("training.bf16=true", "training.activation_checkpointing=true")
HELD = ("training.weights=bfloat16",)


@pytest.mark.slow  # test_resume.py kills smaller ones
@pytest.mark.parametrize(
    "way", [(), FSDP, (*FSDP, *REDUCED), (*FSDP, *HELD)], ids=["ddp", "fsdp", "fsdp-bf16", "fsdp-held"]
)
def test_a_training_killed_on_two_processes_goes_on(way: tuple[str, ...], trained_alone: Path) -> None:
    """To the model of one process: on one (DDP) or two (FSDP2), after a kill in the middle."""
    out, one = trained_alone / f"several-{len(way)}-{way[-1:] == HELD}", trained_alone / "one"
    reduced = [word for word in way if word not in FSDP]
    if reduced:
        one = trained_alone / f"reduced-{len(reduced)}"
        alone = [sys.executable, *command(trained_alone, *reduced, "--out", str(one))]
        assert subprocess.run(alone, capture_output=True, check=False, cwd=ROOT).returncode == 0
    words = command(trained_alone, *way, "--out", str(out))
    process = launched(2, *words)
    while not (out / "training" / "checkpoint-3" / "trainer_state.json").exists():
        assert process.poll() is None, output_of(process)
        time.sleep(0.05)
    for child in psutil.Process(process.pid).children(recursive=True):
        child.send_signal(signal.SIGKILL)
    process.kill()
    output_of(process)
    assert not (out / "config.json").exists()
    again = launched(2 if way else 1, *words)
    said = output_of(again)
    assert again.returncode == 0, said[-3000:]
    assert said.count("perplexity:") == 1, "one process speaks"
    if reduced:  # other rows are rounded together; that bfloat16 was there at all shows beside single precision
        torch.testing.assert_close(losses(out), losses(one), rtol=torch.finfo(torch.bfloat16).eps, atol=0)
        assert losses(out)[0] != pytest.approx(losses(trained_alone / "one")[0], abs=1e-6)
        return
    torch.testing.assert_close(losses(out), losses(one), rtol=1e-4, atol=1e-4)
    weights, right = (load_file(folder / "model.safetensors") for folder in (out, one))
    assert set(weights) == set(right)
    for name, weight in weights.items():
        # Adam divides by the root of squared gradients, so that rounding shows where they are near zero
        torch.testing.assert_close(weight, right[name], rtol=0, atol=5e-3)
    assert not list((out / "training").glob("checkpoint-*"))
    assert not (out / "training" / "whole").exists()
    assert not (out / "training" / "beginning").exists()
    assert nw.load(out).next_word_head.config.head == "cache"


def small(folder: Path, head: str) -> tuple[dict[str, Any], list[str]]:
    """A training of seconds that gives the same on any number of processes: what is trained, and how."""
    (folder / "text.txt").write_text("\n".join(sentences(60)), encoding="utf-8")
    recipe = {"model": "small", "data": str(folder / "text.txt"), "head": head}
    return recipe, [*SMALL, "task.start.dropout=0", "training.log_every=1"]


@pytest.mark.slow
def test_a_divided_vocabulary_trains_the_model_of_one_process(tmp_path: Path) -> None:
    """With tied embeddings, gradients that are clipped by the norm of all processes."""
    recipe, asked = small(tmp_path, "softmax+cpr:3,5")
    asked += ["training.steps=8", "training.max_grad_norm=0.1"]
    train(recipe, asked, tmp_path / "one")
    assert ranks(2, train, recipe, [*asked, "training.shard_vocabulary=true"], tmp_path / "two") == [0, 0]
    torch.testing.assert_close(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=1e-5, atol=0)
    weights, right = (load_file(tmp_path / name / "model.safetensors") for name in ("two", "one"))
    assert set(weights) == set(right)
    for name, weight in weights.items():
        torch.testing.assert_close(weight, right[name], rtol=0, atol=1e-4)
    assert nw.load(tmp_path / "two").next_word_head.config.head == "softmax"


@pytest.mark.slow
def test_a_comparison_on_two_processes_is_that_of_one(tmp_path: Path) -> None:
    """Start, runs and what is measured; one process writes and speaks."""
    command(tmp_path)  # writes the data
    small = ["task.vocabulary=300", "task.start.n_layer=1", "task.start.n_embd=16", "task.start.n_head=2"]
    steps = ["training.steps=4", "training.batch_size=4", "start.training.steps=4", "start.training.batch_size=4"]
    heads = ["--head", "softmax", "--head", "cache", "--seed", "0"]
    words = ["-m", "nextword", "compare", "--task", "lm", f"task.data={tmp_path / 'book.txt'}", *heads, *small, *steps]
    one = subprocess.run([sys.executable, *words, "--out", str(tmp_path / "one")], capture_output=True, cwd=ROOT)
    assert one.returncode == 0, one.stderr
    process = launched(2, *words, "--out", str(tmp_path / "two"))
    said = output_of(process)
    assert process.returncode == 0, said[-3000:]
    assert said.count("Report:") == 1
    measured = [
        [(run.head, run.evaluation.metrics["nll"].value) for run in Results.load(tmp_path / name / "results.json").runs]
        for name in ("one", "two")
    ]
    assert [head for head, _ in measured[0]] == [head for head, _ in measured[1]] == ["softmax", "cache"]
    torch.testing.assert_close([nats for _, nats in measured[1]], [nats for _, nats in measured[0]], rtol=1e-4, atol=0)


@pytest.mark.slow
def test_an_error_is_printed_once_and_ends_all(tmp_path: Path) -> None:
    process = launched(2, *command(tmp_path, "--out", str(tmp_path / "out"), "training.batch_size=3"))
    said = output_of(process)
    assert process.returncode != 0
    assert said.count("error: training.batch_size: must be a multiple of the 2 processes") == 1


FAILING = """
import os

from nextword.cli import app
from nextword.experiments.training.learning_rates import GroupedTrainer

step, made = GroupedTrainer.training_step, []


def failing(*given, **named):
    made.append(None)
    if os.environ["RANK"] == "1" and len(made) == 3:
        raise ValueError("a row of this process cannot be read")
    return step(*given, **named)


GroupedTrainer.training_step = failing
app()
"""


@pytest.mark.slow
def test_one_process_that_fails_in_the_middle_ends_all_with_its_message(tmp_path: Path) -> None:
    """The main process, which loses the connection to it, says nothing."""
    (tmp_path / "failing.py").write_text(FAILING, encoding="utf-8")
    words = command(tmp_path, "--out", str(tmp_path / "out"))[2:]
    process = launched(2, str(tmp_path / "failing.py"), *words)
    said = output_of(process, seconds=120)
    assert process.returncode != 0
    assert said.count("error:") == said.count("error: a row of this process cannot be read") == 1, said
    assert "]: Traceback" not in said, "so torch marks what a process says"
    assert not (tmp_path / "out" / "config.json").exists()


@pytest.mark.slow
def test_accelerate_starts_processes_as_well(trained_alone: Path) -> None:
    """Without ``--multi_gpu`` it starts one process where there is no GPU."""
    out = trained_alone / "accelerated"
    run = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    done = subprocess.run(
        [*run, *command(trained_alone, "--out", str(out))],
        capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("perplexity:") == 1, "one process speaks"
    torch.testing.assert_close(losses(out), losses(trained_alone / "one"), rtol=1e-4, atol=1e-4)
    assert losses(out) != losses(trained_alone / "one"), "two processes round in their own way"


STILL = ("training.steps=1", "training.batch_size=2", "training.learning_rate=1e-60")
"""A training that leaves every weight as it is: in single precision this rate is zero."""

STARTS = {
    "bfloat16-to-float32": ("bfloat16", "float32"),
    "bfloat16": ("bfloat16", "bfloat16"),
    "float32-to-bfloat16": ("float32", "bfloat16"),
    "made": ("small", "float32"),
    "made-to-bfloat16": ("small", "bfloat16"),
}
"""What a training begins with, and the precision of its weights."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [list(STARTS)[:1], pytest.param(list(STARTS)[1:], marks=pytest.mark.slow)], ids=["one", "others"]
)
def test_processes_that_share_a_model_begin_with_the_weights_of_one(names: list[str], tmp_path: Path) -> None:
    """Bit for bit, whatever the main process made, converted or read (FSDP2)."""
    recipe, asked = small(tmp_path, "mos:2")
    asked += STILL
    train(recipe, asked, tmp_path / "float32")
    halved = shutil.copytree(tmp_path / "float32", tmp_path / "bfloat16")
    nw.load(halved, dtype=torch.bfloat16).save_pretrained(halved)
    assert {weight.dtype for weight in load_file(halved / "model.safetensors").values()} == {torch.bfloat16}
    loaded = [word for word in asked if not word.startswith(("task.vocabulary", "task.start"))]
    together = []
    for name in names:
        start, weights = STARTS[name]
        words = [*(asked if start == "small" else loaded), f"training.weights={weights}"]
        begun = recipe | {"model": start if start == "small" else str(tmp_path / start)}
        train(begun, words, tmp_path / f"{name}-one")
        together.append((begun, [*words, *FSDP], tmp_path / f"{name}-two"))
    assert ranks(2, train_with_files, together) == [0, 0]
    for name in names:
        found, right = (load_file(tmp_path / f"{name}-{count}" / "model.safetensors") for count in ("two", "one"))
        assert set(found) == set(right)
        for key, weight in found.items():
            assert weight.dtype == getattr(torch, STARTS[name][1])
            assert torch.equal(weight, right[key]), (name, key)
        torch.testing.assert_close(
            losses(tmp_path / f"{name}-two"), losses(tmp_path / f"{name}-one"), rtol=1e-6, atol=0
        )


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read as Linux gives it")
@pytest.mark.slow
def test_no_process_holds_a_whole_copy_at_the_beginning(tmp_path: Path) -> None:
    """Nor the main one, whatever it begins with."""
    table = tmp_path / "rows.csv"
    measured = [sys.executable, "benchmarks/start_memory.py", "--width=512", "--layers=8", "--processes", "2"]
    done = subprocess.run([*measured, "--out", str(table)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 4
    for row in rows:
        assert float(row["model_mib"]) > 45
        assert float(row["start_mib"]) < 0.75 * float(row["model_mib"]), "its half, and something beside it"


def test_sharing_among_one_process_is_refused() -> None:
    with pytest.raises(ValueError, match="processes"):
        expect_available(TrainingSettings(steps=1, fsdp=True))


def test_dividing_a_vocabulary_among_one_process_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shard_vocabulary:.*processes"):
        expect_available(TrainingSettings(steps=1, shard_vocabulary=True))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda model: model.resize_token_embeddings(5), "5 tokens are too few for 4 processes"),
        (
            lambda model: model.backbone.set_output_embeddings(Unlike(8, 50)),
            "with a linear output layer .a Unlike given.",
        ),
    ],
)
def test_what_cannot_be_divided_is_refused(
    spoil: Callable[[Any], Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    model = nw.attach(parity.llama(), "softmax")
    spoil(model)
    with pytest.raises(ValueError, match=message):
        share_vocabulary(model)


class Unlike(nn.Linear):
    """A layer that may hold its rows in a way of its own."""


def test_a_model_that_does_not_name_its_layers_is_refused() -> None:
    model = nw.attach(parity.llama(), "softmax")
    model._no_split_modules = None
    with pytest.raises(ValueError, match="must name its layers"):
        shard(model)


def test_a_model_of_two_precisions_is_refused() -> None:
    model = nw.attach(parity.llama(), "softmax")
    model.get_output_embeddings().to(torch.bfloat16)
    with pytest.raises(ValueError, match=r"training\.weights"):
        shard(model)


def test_a_model_that_is_whole_is_taken_as_it_is(tmp_path: Path) -> None:
    model = object()
    assert whole_model(model, tmp_path) is model


def test_a_model_that_is_saved_whole_is_read_with_all_weights(tmp_path: Path) -> None:
    model = nw.attach(parity.llama(), "softmax")
    save_whole(model, tmp_path)
    torch.testing.assert_close(whole_model(None, tmp_path).state_dict(), model.state_dict(), rtol=0, atol=0)
