"""docs/file-formats.md names every key of a trace, and no other; the example of docs/inspect.md runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import nextword as nw
from nextword.inference.inspection import trace_example
from nextword.results.records.token_trace import (
    Candidates,
    StrongestPositions,
    TracedModel,
    TracedText,
    TracedTokens,
    TraceRecord,
)
from tests.helpers.opened_models import decoder
from tests.helpers.text_tokenizers import byte_level

pytestmark = pytest.mark.docs

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "file-formats.md").read_text(encoding="utf-8")


def keys() -> set[str]:
    """Of a whole trace, with * for what is named by role or component."""
    inside = {
        "model": TracedModel, "texts.*": TracedText, "tokens": TracedTokens,
        "tokens.candidates": Candidates, "tokens.positions.*": StrongestPositions,
    }  # fmt: skip
    named = set(TraceRecord.model_fields) - {"model", "texts", "tokens"}
    for prefix, record in inside.items():
        named |= {f"{prefix}.{name}" for name in record.model_fields} - {"tokens.candidates", "tokens.positions"}
    return named | {f"texts.{role}" for role in ("text", "source", "auxiliary", "store")}


def test_the_table_has_every_key() -> None:
    table = PAGE.split("## Traces")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {key for row in rows for key in re.findall(r"`([^`]+)`", row)} == keys()


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = decoder(byte_level(), "cache")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"model": opened.model, "tokenizer": opened.tokenizer}
    exec(re.findall(r"```python\n(.*?)```", (DOCS / "inspect.md").read_text(encoding="utf-8"), re.DOTALL)[0], names)
    assert (tmp_path / "page.html").is_file()
    assert nw.Trace.load(tmp_path / "trace.json") == names["trace"]


def test_numbers_are_rounded_as_the_page_says() -> None:
    assert trace_example.DECIMALS == 4
    assert "Numbers have four decimals" in PAGE
