"""A model that is divided among one process alone, as ``torchrun --nproc-per-node 1`` starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("way", ["fsdp", "vocabulary"])
def test_one_process_computes_as_if_undivided(way: str) -> None:
    """Loss and gradients of several heads; in evaluation, where the scores of single tokens are asked for too."""
    environment = os.environ | {"NEXTWORD_GPU_TESTS_ON": "cpu", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-m", "tests.helpers.card_steps", way]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
