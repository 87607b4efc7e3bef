"""Trainings in processes of their own that are killed by SIGKILL at any moment, as often as it takes."""

from __future__ import annotations

import multiprocessing
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from nextword.experiments.training import train_model
from nextword.experiments.training.train_config import configured
from nextword.runtime import weights

WORDS = (
    "the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "dog", "run", "to", "big", "red", "house", "with",
    "green", "door", "in", "rain",
)  # fmt: skip

SMALL = [
    "task.vocabulary=280", "task.block=16", "task.window=16", "task.stride=8", "task.start.n_embd=16",
    "task.start.n_layer=1", "task.start.n_head=2", "task.start.dropout=0.1", "training.batch_size=4",
    "training.scheduler=constant",
]  # fmt: skip
"""A GPT-2 that trains in a second; nothing in it is the same again by chance: dropout, no rate that ends at 0."""


def sentences(count: int, seed: int = 0) -> list[str]:
    """Made-up sentences, one a line."""
    chance = random.Random(seed)
    return [f"{' '.join(chance.choices(WORDS, k=chance.randint(4, 9)))} ." for _ in range(count)]


def train(recipe: dict[str, Any], overrides: list[str], out: Path) -> None:
    """One call, silent."""
    torch.set_num_threads(1)
    train_model.train(configured(recipe, overrides), out)


def train_with_files(trainings: list[tuple[dict[str, Any], list[str], Path]]) -> None:
    """Several calls; what is made on the way to a share of a model lies in files, however small it is."""
    weights.LEAST = 1
    for recipe, overrides, out in trainings:
        train(recipe, overrides, out)


@dataclass(frozen=True)
class Moment:
    """When a process is killed.

    Attributes:
        file: File or folder that must be there, below the folder of the training.
        seconds: Time after that.
    """

    file: str = "."
    seconds: float = 0.0


def train_killed(recipe: dict[str, Any], overrides: list[str], out: Path, moments: list[Moment]) -> list[bool]:
    """Starts a training again and again, kills it each time, and at last lets it end.

    Returns:
        Whether it was still at work at each of the moments.
    """
    killed = []
    for moment in moments:
        process = _started(recipe, overrides, out)
        while process.is_alive() and not (out / moment.file).exists():
            time.sleep(1e-4)
        process.join(moment.seconds)
        killed.append(process.is_alive())
        process.kill()
        process.join()
    process = _started(recipe, overrides, out)
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the training ended with code {process.exitcode}")
    return killed


def saved_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of a model folder."""
    return load_file(folder / "model.safetensors")


def _started(recipe: dict[str, Any], overrides: list[str], out: Path) -> Any:
    process = multiprocessing.get_context("fork").Process(target=train, args=(recipe, overrides, out))
    process.start()
    return process
