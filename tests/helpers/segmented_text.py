"""Rows of made-up tokens for trainings whose rows see one another."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset

import nextword as nw
from tests.helpers.tiny_trainings import VOCABULARY, tiny_gpt2

LENGTH = 8
"""Tokens of a row."""


def text(rows: int = 30) -> torch.Tensor:
    """Rows of one document."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, VOCABULARY, (rows, LENGTH), generator=generator)
    ids[0, 0] = 0
    return ids


def data() -> Dataset:
    """The same as training data."""
    rows = text().tolist()
    return Dataset.from_dict({"input_ids": rows, "labels": rows})


def model(head: str = "cache:published,long=40") -> Any:
    """A tiny one, with a head that looks back."""
    return nw.attach(tiny_gpt2(), head)
