"""Losses of texts under every objective, with the gradient that they give."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

import nextword as nw

OBJECTIVES: dict[str, Any] = {name: name for name in nw.objectives.registry.names()} | {
    "mle:labels": "mle:labels",
    "histalign,labels": {"objective": "histalign", "memory_values": "labels", "ranks": "valid"},
    "histalign,pair_sum": {"objective": "histalign", "reduction": "pair_sum", "ranks": "valid"},
    "unlikelihood+seq": "unlikelihood+seq:1,3x4",
}
FEW = ("mle", "unlikelihood", "face")
"""One that asks for the targets' probabilities, one for other tokens' too, one for the distribution's best token."""


def texts(lengths: Sequence[int], seed: int) -> list[Tensor]:
    """Texts of few tokens, so that they come again."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 9, (length,), generator=generator) for length in lengths]


def loss_of(model: Any, objective: Any, given: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The loss of the first update of a training without dropout, and the gradient of the output embedding."""
    model.set_objective(objective)
    model.zero_grad()
    loss = model(**given).loss
    loss.backward()
    return loss.detach(), model.get_output_embeddings().weight.grad.clone()


def taken(model: Any, names: Iterable[str]) -> list[str]:
    """Names of the objectives that make sense with the model's head."""
    found = []
    for name in names:
        with contextlib.suppress(ValueError):
            model.set_objective(OBJECTIVES[name])
            found.append(name)
    return found
