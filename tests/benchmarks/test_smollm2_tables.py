"""The tables of SmolLM2's page are those of its records, and each number is that of its row and seed."""

from __future__ import annotations

from pathlib import Path

import pytest
import smollm2_tables
from smollm2_tables import change, printed_change, values

from nextword.results.records.reproduced_table import ReproducedCell


def test_the_page_is_that_of_the_records() -> None:
    smollm2_tables.main(["--check"])


def test_an_old_page_is_found_and_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2_tables, "PAGE", tmp_path / "page.md")
    smollm2_tables.PAGE.write_text(
        "Before.\n\n<!-- table: figure-3 -->\nold\n<!-- end -->\n\nAfter.\n", encoding="utf-8"
    )
    with pytest.raises(SystemExit, match="older than its records"):
        smollm2_tables.main(["--check"])
    smollm2_tables.main([])
    text = smollm2_tables.PAGE.read_text(encoding="utf-8")
    assert text.startswith("Before.\n\n<!-- table: figure-3 -->\n\n| head | WikiText-2 |")
    assert text.endswith("|\n\n<!-- end -->\n\nAfter.\n")
    smollm2_tables.main(["--check"])


def test_changes_are_taken_seed_by_seed() -> None:
    baseline = ReproducedCell(by_seed={"0": 10.0, "1": 20.0}, printed=30.0)
    better = ReproducedCell(by_seed={"0": 9.0, "1": 16.0}, printed=33.0)
    assert values(better, ".1f") == "12.5 <sub>9.0–16.0</sub>"
    assert change(better, baseline) == "−15.0 <sub>−20.0 to −10.0</sub>"
    assert printed_change(better, baseline) == "+10.0"
    assert change(baseline, baseline) == printed_change(baseline, baseline) == ""
    assert values(ReproducedCell(), ".1f") == change(ReproducedCell(), baseline) == ""
