"""A training that several processes share, killed at a step and gone on with; called in each of them by ``ranks``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.experiments.training.one_training import fit, fit_with_main
from nextword.experiments.training.settings import TrainingSettings
from nextword.runtime import processes

STEPS = 8
SAVED = 3
"""Steps between two checkpoints."""


def model(dropout: float) -> Any:
    """A tiny GPT-2 with a cache and tied embeddings."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "n_positions": 12, "n_embd": 16, "n_layer": 1, "n_head": 2}
    dropped = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}
    return nw.attach(GPT2LMHeadModel(GPT2Config(**sizes, **dropped, bos_token_id=0, eos_token_id=0)), "cache")


def rows(count: int) -> Dataset:
    """So many texts of different lengths."""
    draw = torch.Generator().manual_seed(1)
    ids = [torch.randint(1, 30, (4 + place % 8,), generator=draw).tolist() for place in range(count)]
    return Dataset.from_dict({"input_ids": ids, "labels": ids})


def losses(folder: str, texts: int, dropout: float, killed: int | None) -> None:
    """Trains with FSDP2, or goes on; the main process writes ``losses.pt``: the first step it made, and all losses.

    Args:
        folder: Of the training.
        texts: How many there are; a step reads four.
        dropout: Of the model.
        killed: After which step the main process is killed.
    """
    if not processes.is_main():
        fit_with_main()
        return
    asked = TrainingSettings(steps=STEPS, batch_size=4, log_every=1, save_every=SAVED, learning_rate=1e-2, fsdp=True)
    made: list[int] = []
    with processes.leading():
        outcome = fit(model(dropout), rows(texts), asked, seed=1, folder=folder, progress=_told(made, killed))
    torch.save((made[0], [point.loss for point in outcome.curve]), Path(folder) / "losses.pt")


def _told(made: list[int], killed: int | None) -> Callable[[float], None]:
    def progress(share: float) -> None:
        made.append(round(share * STEPS))
        if made[-1] == killed:
            os.kill(os.getpid(), signal.SIGKILL)

    return progress
