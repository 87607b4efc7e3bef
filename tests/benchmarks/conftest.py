"""The scripts of benchmarks/ find each other by name, as when they are run."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = str(Path(__file__).parents[2] / "benchmarks")
if FOLDER not in sys.path:
    sys.path.append(FOLDER)
