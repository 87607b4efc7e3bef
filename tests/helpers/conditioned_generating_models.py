"""Tiny conditioned models on which a wrong auxiliary text shows."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from tests.helpers.conditioned_models import conditioned, texts, with_words
from tests.helpers.generating_models import HEADS, backbone

AUX_ROWS = {1: (7,), 2: (7, 3), 3: (7, 3, 5)}
FEW = [
    ("gpt2", "lmh", "softmax"), ("gpt2", "dau", "softmax+ce"), ("gpt2", "bergpt", "softmax+mi:2x3"),
    ("gpt2", "prefix:3", "cache"), ("mistral", "bergpt", "cache"),
]  # fmt: skip
"""Family, conditioner and head of the cases that every way to generate is tried on."""


@cache
def model_of(family: str, conditioner: str, head: str) -> Any:
    """Not to be changed."""
    torch.manual_seed(2)
    model = conditioned(backbone(family), HEADS.get(head, head), conditioner, start="random")
    with torch.no_grad():
        for name, parameter in model.next_word_head.named_parameters():
            spread = 1.5 if "local" not in name else 0.6
            parameter.normal_(std=spread / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 0.3)
    return model


def auxiliary(model: Any, rows: int = 2) -> dict[str, Tensor]:
    given = texts(AUX_ROWS[rows])
    return with_words(given) if model.next_word_head.reads_source else given
