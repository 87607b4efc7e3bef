"""A step of decoding with a static cache is one graph: no break, and the same graph in every step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.compiled_steps import FEW, OTHERS
from tests.helpers.recomputation import TOLERANCE


@cache
def results(which: str) -> Any:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.helpers.compiled_steps", which]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}  # of this checkout
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("which", "case"),
    [("few", case) for case in FEW] + [pytest.param("others", case, marks=[pytest.mark.slow]) for case in OTHERS],
)
def test_step_is_one_graph(which: str, case: str) -> None:
    result = results(which)[case]
    assert "broken" not in result, result["broken"]
    assert result["graphs"] == 1
    assert result["gap"] < TOLERANCE


@pytest.mark.slow
def test_windows_with_a_long_memory_are_the_same_compiled() -> None:
    assert results("windows") < TOLERANCE
