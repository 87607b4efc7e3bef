"""The record of a head's step: measured rows take the place of former ones, and others stay."""

from __future__ import annotations

import json
from pathlib import Path

import head_step
import torch


def test_rows_of_other_shapes_stay(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    out = tmp_path / "step.json"
    former = {"setting": "1 x 2, width 3", "threads": 9, "step": "softmax", "embedding": "trained"}
    out.write_text(json.dumps({"measured": [former | {"products": 1.0, "seconds": 1.5, "ratio": 1.5}]}))
    measured = ["--shapes", "20000x128", "--tokens", "256", "--threads", "1", "--rounds", "1"]
    steps = ["--steps", "softmax", "softmax+proj", "softmax unlikelihood"]
    try:
        head_step.main([*measured, "--out", str(out), *steps])
    finally:
        torch.set_num_threads(threads)
    made = json.loads(out.read_text())
    cells = made["sections"][0]["parts"][0]["rows"]
    assert cells[0] == ["1 x 2, width 3", "9", "softmax", "trained", "1.00", "1.50", "1.50"]
    assert [(row[2], row[3]) for row in cells[1:]] == [
        ("softmax", "trained"),
        ("softmax+proj", "frozen"),
        ("softmax+proj", "trained"),
        ("softmax unlikelihood", "trained"),
    ]
    assert all(row["ratio"] > 0 for row in made["measured"])
