from __future__ import annotations

from typing import Any

import pytest

from nextword.cli.score import ScoreOptions
from nextword.inference.scoring.breakdowns import CopiedSpans, FrequencyBands, NewAndRepeated, TextPosition
from tests.helpers.doc_pages import ROOT, blocks

pytestmark = pytest.mark.docs

PAGE = (ROOT / "docs" / "score.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    (example,) = blocks(PAGE, "python")
    names: dict[str, Any] = {}
    exec(example, names)
    both = names["both"]
    assert both["plain"].perplexity == names["result"].perplexity
    assert both.differences[0].difference == both["cache"].nll - both["plain"].nll


def test_every_breakdown_and_option_is_explained() -> None:
    for breakdown in (NewAndRepeated, CopiedSpans, FrequencyBands, TextPosition):
        assert f"| `{breakdown.key}` |" in PAGE
    seldom = {"batch_size", "device", "dtype"}
    assert not [name for name in set(ScoreOptions.model_fields) - seldom if f"--{name.replace('_', '-')}" not in PAGE]


def test_the_example_of_generate_runs() -> None:
    text = (ROOT / "docs" / "generate.md").read_text(encoding="utf-8")
    (example,) = (body for body in blocks(text, "python") if "nw.generate(" in body)
    names: dict[str, Any] = {}
    exec(example, names)
    assert [one["prompt"] for one in names["samples"]] == ["the king"] * 2 + ["the queen"] * 2
