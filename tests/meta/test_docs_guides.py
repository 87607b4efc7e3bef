"""Examples of the guides that need no files run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.doc_pages import ROOT, blocks

pytestmark = pytest.mark.docs


def run(page: str, marker: str) -> dict[str, Any]:
    """The names after the page's only Python example that contains the marker."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    (example,) = (body for body in blocks(text, "python") if marker in body)
    names: dict[str, Any] = {}
    exec(example, names)
    return names


def test_a_text_longer_than_the_window_is_continued() -> None:
    assert run("generate", "remember(")["written"].shape == (1, 25)


def test_an_unnormalised_cache_is_found() -> None:
    (finding,) = run("checker", "def cached(")["report"].findings
    assert str(finding).startswith("sum: the probabilities of all tokens do not add up to 1: position 9 assigns 1.8")
    assert finding.texts == ((18,),)


def test_a_model_uses_an_ngram_index() -> None:
    names = run("retrieval", "with_ngrams(")
    assert len(names["written"][0]) == len(names["context"]) + 3
