"""Columns that processes share: the answers and gradients of whole rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import column_shares

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_three_processes_answer_as_one() -> None:
    """With unequal shares, and with a group of tokens of which one process has none."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [*run, str(Path(column_shares.__file__))], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
