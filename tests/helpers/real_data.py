"""Where real data lies, for the tests that use it where it is there."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("NEXTWORD_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))


def real_data(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no real data at {path}; set NEXTWORD_DATA to the folder that has {name}")
    return path
