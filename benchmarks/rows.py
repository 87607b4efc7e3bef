"""Rows of measurements, appended to a table that keeps all earlier ones."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def append(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Appends rows to a CSV file, with a header where it is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)
