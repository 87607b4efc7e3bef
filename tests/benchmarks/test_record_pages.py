from __future__ import annotations

import json
from pathlib import Path

import pytest
import record_pages


def test_the_pages_are_those_of_the_records() -> None:
    record_pages.main(["--check"])


def test_a_record_becomes_a_page_and_an_old_page_is_found(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    parts = [{"commands": ["nextword list"]}, {"caption": "Of two", "columns": ["a", "b"], "rows": [["1", "2"]]}]
    record = {
        "title": "One",
        "guide": "../one.md",
        "about": "One seed.",
        "sections": [{"title": "All", "parts": parts}],
    }
    (tmp_path / "results" / "one.json").write_text(json.dumps(record), encoding="utf-8")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    record_pages.main(["--records", str(tmp_path)])
    page = (tmp_path / "results" / "one.md").read_text(encoding="utf-8")
    assert page.startswith("# One: record\n\n<!-- generated")
    assert "One seed. Summary: [One](../one.md)." in page
    assert "## All\n\n```console\nnextword list\n```\n\n**Of two**\n\n| a | b |\n| --- | --- |\n| 1 | 2 |" in page
    assert "- [One: record](results/one.md)" in (tmp_path / "index.md").read_text(encoding="utf-8")
    record_pages.main(["--records", str(tmp_path), "--check"])
    (tmp_path / "results" / "one.md").write_text("old", encoding="utf-8")
    with pytest.raises(SystemExit, match="older than its record"):
        record_pages.main(["--records", str(tmp_path), "--check"])
