"""Nats per token of validation rows: what a search compares its trainings by, whatever they were trained for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from nextword.experiments.tasks.parts.architecture import architecture_of
from nextword.experiments.training.one_training import batch_collator
from nextword.functional.padding import IGNORED_LABEL
from nextword.inference.scoring.minibatches import Progress, batches
from nextword.model.attach import load
from nextword.model.training_modes import measuring
from nextword.runtime.devices import best_device

LIKELIHOOD = "mle"
"""Objective whose loss is the negative log-likelihood under the head's whole distribution."""


def validation_nats(folder: Path, rows: Any, batch_size: int, progress: Progress | None = None) -> float:
    """Mean negative log-likelihood of the targets of ``rows`` under a saved model.

    The model is asked for the likelihood, not for the loss that it was trained for, so that models of different
    weights of a loss (HistAlign's alpha) compare.

    Args:
        folder: Of the model.
        rows: As those of ``nextword.experiments.tasks.Data.validation``; as they are in the first epoch.
        batch_size: Rows at a time.
        progress: Told the share that is done.

    Returns:
        Nats per token, over all tokens alike; NaN or infinite where the model is broken.
    """
    model: Any = load(folder, objective=LIKELIHOOD)
    model.to(best_device())
    collator, aligned = batch_collator(model), not architecture_of(model.config).has_encoder
    sums: list[float] = []
    tokens = 0
    with measuring(model), torch.no_grad():
        for part in batches(range(len(rows)), batch_size, progress):
            batch = collator([rows[place] for place in part])
            labels = batch["labels"][:, 1:] if aligned else batch["labels"]  # nothing predicts the first token of a row
            tokens += int((labels != IGNORED_LABEL).sum())
            batch = {name: one.to(model.device) if hasattr(one, "to") else one for name, one in batch.items()}
            sums.append(float(model(**batch, num_items_in_batch=1).loss))
    if not tokens:
        raise ValueError("search: there are no validation rows to choose by; give the task some, or leave search out")
    return math.fsum(sums) / tokens if all(map(math.isfinite, sums)) else math.nan
