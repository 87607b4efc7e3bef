"""A trace as JSON, as a table and as a page."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

import nextword as nw
from nextword.results.records.token_trace import TRACE_FORMAT, TraceRecord
from tests.helpers.opened_models import conditioned, decoder
from tests.helpers.text_tokenizers import TEXTS, byte_level

TEXT = "The king sat. The king <script>alert(1)</script> 🙂\n"


@pytest.fixture(scope="module")
def trace() -> nw.Trace:
    return nw.trace(decoder(byte_level(), "softmax+cpr:3,8"), text=TEXT, prompt="The throne", candidates=4, positions=3)


def test_a_limited_trace_is_the_beginning_of_the_whole() -> None:
    opened, shares = decoder(byte_level(), "cache"), []
    whole = nw.trace(opened, text=TEXT * 3)
    part = nw.trace(opened, text=TEXT * 3, limit=20, progress=shares.append)
    assert len(part.tokens.rank) == 20
    assert part.tokens.rank == whole.tokens.rank[:20]
    assert part.tokens.log_prob == pytest.approx(whole.tokens.log_prob[:20], abs=1e-4)
    assert shares
    assert shares[-1] == 1
    with pytest.raises(ValueError, match="limit: must be at least 1"):
        nw.trace(opened, text=TEXT, limit=0)


def test_json_is_read_again(trace: nw.Trace, tmp_path: Path) -> None:
    text = trace.to_json()
    assert trace.to_json(tmp_path / "deep" / "trace.json") is None  # type: ignore[func-returns-value]
    assert (tmp_path / "deep" / "trace.json").read_text(encoding="utf-8") == text + "\n"
    assert "\n" not in text
    content = json.loads(text)
    assert content["format"] == TRACE_FORMAT
    assert content["texts"]["text"]["pieces"] == trace.texts["text"].pieces
    read = nw.Trace.load(tmp_path / "deep" / "trace.json")
    assert isinstance(read, nw.Trace)
    assert read == trace
    assert read.to_json() == text
    trace.save(tmp_path / "saved.json")
    assert TraceRecord.load(tmp_path / "saved.json").model_dump() == trace.model_dump()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(format="nextword-trace/9"), "format"),
        (lambda content: content.update(extra=1), "extra"),
        (lambda content: content["tokens"].pop("rank"), "rank"),
    ],
)
def test_another_format_is_refused(trace: nw.Trace, tmp_path: Path, change: Any, message: str) -> None:
    content = json.loads(trace.to_json())
    change(content)
    (tmp_path / "trace.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"trace\.json is not a valid Trace record:\n.*{message}"):
        nw.Trace.load(tmp_path / "trace.json")
    (tmp_path / "half.json").write_text(trace.to_json()[:-9])
    with pytest.raises(ValueError, match=r"half\.json is not JSON"):
        nw.Trace.load(tmp_path / "half.json")


def test_a_table_has_a_row_for_each_token(trace: nw.Trace) -> None:
    table = trace.to_pandas()
    names = ("softmax", "reranker 8", "reranker 3", "context")
    assert table.columns.tolist() == [
        "index", "id", "token", "piece", "log_prob", "rank", "entropy",
        *(f"share {name}" for name in names), "positions context", "candidates",
    ]  # fmt: skip
    assert len(table) == len(trace.tokens.log_prob)
    assert "".join(table["piece"]) == TEXT
    assert table["id"].tolist() == trace.texts["text"].ids[trace.first :]
    assert table["rank"].tolist() == trace.tokens.rank
    assert table["index"].iloc[0] == trace.first
    assert table["token"].iloc[-1] == "\\n"
    assert (table[[f"share {name}" for name in names]].sum(axis=1) - 1).abs().max() < 3e-4
    pointed = [pairs for pairs in table["positions context"] if pairs]
    assert pointed
    assert all(0 <= place < len(trace.texts["text"].ids) and 0 < share <= 1 for row in pointed for place, share in row)
    token, log_prob = table["candidates"].iloc[0][0]
    assert token == trace.vocabulary[trace.tokens.candidates.ids[0][0]]
    assert log_prob == trace.tokens.candidates.log_prob[0][0]


def test_its_name_says_what_was_asked(trace: nw.Trace) -> None:
    count = len(trace.tokens.rank)
    assert repr(trace).startswith(f"Trace({count} tokens, tiny with head 'softmax+cpr:3,8', ")
    assert nw.trace(conditioned("softmax"), text="x", auxiliary=TEXTS[0]).model.conditioner == "bergpt"


def test_a_page_is_written_and_shown_in_a_frame(trace: nw.Trace, tmp_path: Path) -> None:
    pytest.importorskip("nextword.results.report.inspection_page", reason="the page is another part of the library")
    page = trace.to_html()
    assert trace.to_html(tmp_path / "page.html") is None  # type: ignore[func-returns-value]
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    assert page.lstrip().lower().startswith("<!doctype html")
    frame = trace._repr_html_()
    assert frame.count("<") == 2  # the frame alone: nothing of the page is outside its attribute
    assert 'sandbox="allow-scripts"' in frame
    assert html.escape(page, quote=True) in frame
