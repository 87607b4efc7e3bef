"""Rows that a tiny model is trained on."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset

from tests.helpers.tiny_trainings import VOCABULARY


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 9, (24,), generator=generator).tolist()
    ids = [torch.randint(1, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]
    return Dataset.from_dict({"input_ids": ids, "labels": ids})
