"""Tests on a graphics card: ``make test-gpu``. Without one they skip and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from tests.helpers import on_card


@pytest.fixture(autouse=True)
def _card() -> Iterator[None]:
    if why := on_card.missing():
        pytest.skip(why)
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.fixture
def _threads() -> Iterator[None]:
    """All cores, for what the CPU computes in float64 at a real size."""
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    yield
    torch.set_num_threads(before)
