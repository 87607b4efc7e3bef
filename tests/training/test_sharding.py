"""Several processes: the same gradients, the same model, and one folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.frequency import TokenCounts
from nextword.records import Results
from nextword.training.settings import TrainingSettings
from nextword.training.sharding import shard, share_vocabulary, whole_model
from nextword.training.trainer_arguments import expect_available
from tests.helpers import parity, start_memory

ROOT = Path(__file__).parents[2]


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


def assert_close(found: torch.Tensor, right: torch.Tensor, rtol: float, what: str) -> None:
    torch.testing.assert_close(found, right, rtol=rtol, atol=1e-12, msg=lambda message: f"{what}: {message}")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """What one process finds, and a folder with the counts."""
    folder = tmp_path_factory.mktemp("parity")
    TokenCounts(np.array([100 // (rank + 1) + 1 for rank in range(50)]), None, "made up").save(folder / "counts.npz")
    return folder, parity.every_case("one", str(folder / "counts.npz"))


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_losses_and_gradients_are_those_of_one_process(count: int, alone: tuple[Path, dict[str, Any]]) -> None:
    """DDP, accumulated DDP and FSDP2, tied and untied, with texts of different lengths in each process.

    And an output embedding divided over the vocabulary, tied and untied, in double and in single precision.
    """
    folder, expected = alone
    process = launched(count, str(Path(parity.__file__)), str(folder))
    said = output_of(process)
    assert process.returncode == 0, said[-3000:]
    found = torch.load(folder / f"{count}.pt")
    whole = found.pop("logits")
    for head, right in parity.logits("one", str(folder / "counts.npz")).items():
        assert_close(whole[head], right, 1e-12, f"logits {head}")
    assert set(found) == {"ddp 1", "ddp 2", "fsdp 1", "vocabulary torch.float64", "vocabulary torch.float32"}
    for way, cases in found.items():
        if way.startswith("vocabulary"):
            continue
        assert set(cases) == {case for case in expected if way != "ddp 2" or not case.endswith(" face")}
        for case, (loss, gradients) in cases.items():
            wanted, wanted_gradients = expected[case]
            assert_close(loss, wanted, 1e-12, f"{way} {case}")
            assert set(wanted_gradients) <= set(gradients)
            for name, gradient in gradients.items():
                right = wanted_gradients.get(name, torch.zeros_like(gradient))
                assert_close(gradient, right, 1e-10, f"{way} {case} {name}")
    in_single = parity.every_case("one", str(folder / "counts.npz"), dtype=torch.float32)
    for dtype, wanted, tolerance in ((torch.float64, expected, 1e-12), (torch.float32, in_single, 1e-6)):
        assert_shared(found[f"vocabulary {dtype}"], wanted, tolerance)


def assert_shared(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    """Losses and gradients of a divided output embedding: no farther off than ``tolerance`` times the largest."""
    assert set(found) == set(expected) - {" ".join(parity.CANNOT_SHARE)}
    for case, (loss, gradients) in found.items():
        wanted, wanted_gradients = expected[case]
        assert_close(loss, wanted, tolerance, case)
        assert set(gradients) == set(wanted_gradients)
        largest = max(float(gradient.abs().max()) for gradient in wanted_gradients.values())
        for name, gradient in gradients.items():
            off = float((gradient - wanted_gradients[name]).abs().max())
            assert off <= tolerance * largest, f"{case} {name}: {off / largest:.1e}"


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


@pytest.mark.parametrize(
    "way",
    [(), pytest.param(FSDP, marks=pytest.mark.slow), pytest.param((*FSDP, *REDUCED), marks=pytest.mark.slow)],
    ids=["ddp", "fsdp", "fsdp-bf16"],
)
def test_a_training_killed_on_two_processes_goes_on(way: tuple[str, ...], trained_alone: Path) -> None:
    """To the model of one process: on one (DDP) or two (FSDP2), after a kill in the middle."""
    out, one = trained_alone / f"several{len(way)}", trained_alone / "one"
    reduced = set(REDUCED) <= set(way)
    if reduced:
        one = trained_alone / "reduced"
        alone = [sys.executable, *command(trained_alone, *REDUCED, "--out", str(one))]
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


def test_a_divided_vocabulary_trains_the_model_of_one_process(tmp_path: Path) -> None:
    """With tied embeddings, gradients that are clipped by the norm of all processes."""
    words = command(tmp_path, "training.max_grad_norm=0.1")
    words[words.index("cache")] = "softmax+cpr:3,5"
    words[words.index("histalign")] = "mle"
    one = subprocess.run([sys.executable, *words, "--out", str(tmp_path / "one")], capture_output=True, cwd=ROOT)
    assert one.returncode == 0, one.stderr
    process = launched(2, *words, "--shard-vocabulary", "--out", str(tmp_path / "two"))
    said = output_of(process)
    assert process.returncode == 0, said[-3000:]
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


def test_an_error_is_printed_once_and_ends_all(tmp_path: Path) -> None:
    process = launched(2, *command(tmp_path, "--out", str(tmp_path / "out"), "training.batch_size=3"))
    said = output_of(process)
    assert process.returncode != 0
    assert said.count("error: training.batch_size: must be a multiple of the 2 processes") == 1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read as Linux gives it")
def test_no_process_holds_a_whole_copy_at_the_beginning(tmp_path: Path) -> None:
    shape = {"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 20_000, "tie_word_embeddings": False}
    backbone = LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1024, **shape))
    nw.attach(backbone, "softmax+cpr:20,100").save_pretrained(tmp_path)
    process = launched(2, str(Path(start_memory.__file__)), str(tmp_path))
    said = output_of(process)
    assert process.returncode == 0, said[-3000:]
    for rank in range(2):
        found = json.loads((tmp_path / f"memory-{rank}.json").read_text())
        assert found["model"] > 80 * 2**20
        assert found["peak"] < 0.7 * found["model"], "its half, and something beside it"


def test_sharing_among_one_process_is_refused() -> None:
    with pytest.raises(ValueError, match="spreads a model over several processes, and there is one"):
        expect_available(TrainingSettings(steps=1, fsdp=True))


def test_dividing_a_vocabulary_among_one_process_is_refused() -> None:
    with pytest.raises(ValueError, match="shard_vocabulary: spreads a model over several processes"):
        expect_available(TrainingSettings(steps=1, shard_vocabulary=True))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda model: model.resize_token_embeddings(5), "5 tokens are too few for 4 processes"),
        (lambda model: model.backbone.set_output_embeddings(Unlike(8, 50)), "the output layer is a Unlike"),
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
    with pytest.raises(ValueError, match="does not name its layers"):
        shard(model)


def test_a_model_that_is_whole_is_taken_as_it_is(tmp_path: Path) -> None:
    model = object()
    assert whole_model(model, tmp_path) is model
