"""Tests on a graphics card: ``make test-gpu``. Without one they skip and say so."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
import torch

from tests.helpers import on_card


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Says at once what failed: a run that is ended early has said it."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid}\n{report.longreprtext[-3000:]}", file=sys.__stdout__, flush=True)


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
    """All cores, or this worker's share, for what the CPU computes in float64 at a real size."""
    before, workers = torch.get_num_threads(), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    yield
    torch.set_num_threads(before)
