"""Starts a benchmark again in several processes and collects its results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def launched(script: str, processes: int, words: Sequence[str]) -> Any:
    """What the main one of so many processes has written as JSON; each computes in one thread.

    Args:
        script: The file that torchrun starts.
        processes: How many.
        words: Its command line, without ``--out``: that is where it is to write.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*torchrun, script, *words, f"--out={answer}"], env=environment, check=True)
        return json.loads(answer.read_text(encoding="utf-8"))
