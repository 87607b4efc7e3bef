"""Training and saved models on the card: autocast, checkpointing, bfloat16, sharded weights, compiled steps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import nextword as nw
from tests.helpers.families import inputs, labels, tiny
from tests.helpers.head_specs import specs, with_head
from tests.helpers.on_card import BFLOAT16, DEVICE, FLOAT32, Choices, furthest, learned, moved, on_card

pytestmark = pytest.mark.gpu

HEADS = ["softmax", "softmax+cpr:3,8+mi", "mos:3", "cache:published", "pg", "f2"]
ROOT = Path(__file__).parents[2]


def built(head: str, dtype: torch.dtype = torch.float32) -> tuple[Any, dict[str, torch.Tensor]]:
    """A model on the card in evaluation mode (no dropout), and a batch with labels."""
    model = with_head("gpt2", specs().get(head, head), dtype=dtype).eval()
    given = inputs(model)
    return moved(model), on_card(given | {"labels": labels(given)})


@pytest.mark.parametrize("head", HEADS)
def test_autocast(head: str) -> None:
    """bfloat16 products of float32 weights: gradients in float32, off by no more than those products are rounded."""
    model, given = built(head)
    choices = Choices()
    with choices.noted():
        right = learned(moved(model, torch.float64), given)
    with choices.repeated(), torch.autocast(DEVICE.type, torch.bfloat16):
        loss = model(**given, use_cache=False).loss
    model.zero_grad()
    loss.backward()
    gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    assert {one.dtype for one in gradients.values()} == {torch.float32}
    ours = {"loss": loss.detach().double().cpu()} | {
        name: one.to_dense().double().cpu() for name, one in gradients.items()
    }
    error, name = furthest(ours, right)
    assert error < BFLOAT16, (error, name)


@pytest.mark.parametrize("head", HEADS)
def test_gradient_checkpointing(head: str) -> None:
    model, given = built(head, torch.float64)
    right = learned(model, given)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.gradient_checkpointing_enable()
    error, name = furthest(learned(model, given), right)
    assert error < 1e-10, (error, name)


@pytest.mark.parametrize("head", HEADS)
def test_twenty_steps_in_bfloat16_lower_the_loss(head: str) -> None:
    """Weights, states and gradients in bfloat16, without a GradScaler."""
    model = moved(nw.attach(tiny("gpt2"), specs().get(head, head)), torch.bfloat16).train()
    given = inputs(model)
    given = on_card(given | {"labels": labels(given)})
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(20):
        loss = model(**given, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    seen = torch.stack(losses).float().tolist()
    assert all(torch.tensor(seen).isfinite())
    assert sum(seen[-3:]) / 3 < 0.9 * sum(seen[:3]) / 3, seen


LOOKS = {
    "softmax": 1,
    "mos:3": 1,
    "cache:published": 2,  # how many positions each text has
    "softmax+cpr:3,8+mi": 3,  # that, and how many words the texts have
    "pg": 3,  # that, and how many positions each may point at
    "f2": 3,  # how many targets each class has: for the chunks, and for the products
}
"""Looks of ours in a step, scores made in one chunk: at which positions have a label, and what a head asks."""


@pytest.mark.parametrize("head", HEADS)
def test_few_looks_at_values_in_a_step(head: str) -> None:
    """A look at a value (``.item()``, ``nonzero``) stops the card until it has done all that it was given.

    transformers looks at the mask, twice; that is not counted.
    """
    if DEVICE.type != "cuda":
        pytest.skip("only CUDA counts them")
    import warnings

    model, given = built(head)
    model.train()
    learned(model, given)
    model.zero_grad()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as looks:
            warnings.simplefilter("always")
            model(**given, use_cache=False).loss.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    found = [
        f"{Path(one.filename).name}:{one.lineno}"
        for one in looks
        if "synchroniz" in str(one.message) and "transformers" not in Path(one.filename).parts
    ]
    assert len(found) <= LOOKS[head], found


# -- Devices: what was attached, saved or loaded in one place gives the same in another.


@pytest.mark.parametrize("head", HEADS)
def test_attached_and_saved_across_devices(head: str, tmp_path: Path) -> None:
    spec = specs().get(head, head)
    torch.manual_seed(1)
    there = nw.attach(tiny("gpt2").to(DEVICE), spec).eval()
    assert {weight.device.type for weight in [*there.parameters(), *there.buffers()]} == {DEVICE.type}
    there.save_pretrained(tmp_path)
    here = nw.load(tmp_path).eval()
    again = nw.load(tmp_path).to(DEVICE).eval()
    given = inputs(here)
    with torch.no_grad():
        on_cpu = here.distribution(**given, use_cache=False).log_probs()
        for model in (there, again, moved(here), there.cpu()):
            found = model.distribution(**{k: v.to(model.device) for k, v in given.items()}, use_cache=False).log_probs()
            assert (found.cpu() - on_cpu).clamp(-30).abs().max() < FLOAT32 * 10


# -- In a process of its own: a group of one process, and the compiler, which cannot trace the tests' shape checks.


def run_alone(*arguments: str, seconds: float) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-m", "tests.helpers.card_steps", *arguments]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


@pytest.mark.parametrize("way", ["fsdp", "vocabulary"])
def test_sharded_over_one_process(way: str) -> None:
    run_alone(way, seconds=120)


@pytest.mark.parametrize("head", ["cache:published", "softmax+cpr:3,8+mi"])
def test_compiled_step(head: str) -> None:
    run_alone("compiled", head, seconds=180)
