"""The page of a trace as a file: what it holds, what it may do, how large it is."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from nextword.results.report import trace_page
from tests.helpers.made_up_traces import STORY, SUMMARY, MadeUp, long_trace, one_text, story
from tests.helpers.report_pages import read

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)> </script><b>x</b> <!-- {{ 7 * 7 }} & \u2028 \u2029"
LARGEST = 2_000_000
"""Bytes of a page of 2,000 tokens with ten candidates."""


def data(page: str) -> Any:
    (block,) = re.findall(r'<script type="application/json" id="traces">(.*?)</script>', page, re.DOTALL)
    return json.loads(block)


def test_tags_are_nested_and_nothing_is_loaded() -> None:
    page = trace_page(story())
    reader = read(page)
    loading = [value for _, name, value in reader.attributes if name in ("src", "href", "srcset", "action", "data")]
    assert loading == ["data:,"]
    assert not re.search(r"https?://|@import|url\(", page)


def test_only_the_script_and_style_of_the_page_may_run() -> None:
    page = trace_page(story())
    (policy,) = (value for tag, name, value in read(page).attributes if tag == "meta" and "default-src" in value)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_data_is_the_record_to_three_decimals() -> None:
    record = story()
    (found,) = data(trace_page(record))
    expected = record.model_dump(mode="json")
    assert found["texts"] == expected["texts"]
    assert found["vocabulary"] == expected["vocabulary"]
    assert found["tokens"]["log_prob"] == pytest.approx(record.tokens.log_prob, abs=0.0005)
    assert found["tokens"]["candidates"]["ids"] == record.tokens.candidates.ids
    assert found["tokens"]["positions"]["cache"]["at"] == record.tokens.positions["cache"].at


@pytest.mark.parametrize("role", ["text", "source", "auxiliary"])
def test_hostile_text_stays_text(role: Any) -> None:
    record = one_text(HOSTILE, role)
    page = trace_page(record)
    (found,) = data(page)
    assert "".join(found["texts"][role]["pieces"]) == HOSTILE
    assert page.count("<script") == 2
    assert "<img" not in page
    assert "\u2028" not in page
    read(page)


def test_hostile_names_and_contexts_stay_text() -> None:
    one, other = MadeUp(HOSTILE).record("<b>one</b>"), MadeUp(HOSTILE, gate=0).record("</title><script>")
    page = trace_page(one, other)
    assert "<b>one" not in page
    assert page.count("<script") == 2
    assert page.count("</title>") == 1
    read(page)


def test_the_page_begins_with_where_two_models_differ() -> None:
    one, other = MadeUp(STORY, gate=0).record("plain"), MadeUp(STORY).record("cache")
    page = trace_page(one, other)
    assert page.index("Where they differ") < page.index('id="bar"') < page.index('id="tokens-text"')
    total = abs(sum(other.tokens.log_prob) - sum(one.tokens.log_prob))
    assert f"<b>{total:.2f} nats</b>" in page
    assert "Where they differ" not in trace_page(one)


def test_a_model_beside_itself_differs_nowhere() -> None:
    assert "They give every token the same probability." in trace_page(story(), story())


def test_texts_that_are_not_there_have_no_box() -> None:
    assert 'data-role="source"' not in trace_page(story())
    assert 'data-role="source"' in trace_page(MadeUp(SUMMARY, source=STORY).record())
    assert 'data-role="auxiliary"' in trace_page(MadeUp(SUMMARY, auxiliary=STORY).record())


def test_a_prompt_is_said() -> None:
    assert "after 20 that were only read" in trace_page(MadeUp(STORY[80:], prompt=STORY[:80]).record())
    assert "that were only read" not in trace_page(story())


@pytest.mark.slow
@pytest.mark.parametrize("models", [1, 2])
def test_two_thousand_tokens_fit_in_two_megabytes(models: int) -> None:
    pages = [long_trace(), long_trace(gate=0.2)][:models]
    assert len(pages[0].tokens.log_prob) == 2000
    assert len(trace_page(*pages).encode()) <= LARGEST
