"""What the pages of the metrics say holds: each follows the template, names every setting, and its example runs."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import pytest

import nextword as nw
import nextword.evaluation.judges
from tests.helpers.doc_pages import ROOT, blocks, name_of

pytestmark = pytest.mark.docs

METRICS = sorted(page for page in (ROOT / "docs" / "metrics").glob("*.md") if page.stem != "index")
SECTIONS = ["Idea", "Definition", "How to read it", "When not to", "Cost", "Where it differs", "Example", "Source"]


@pytest.mark.parametrize("page", METRICS, ids=name_of)
def test_metric_pages_follow_the_template(page: Path) -> None:
    assert re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE) == SECTIONS


def test_every_metric_has_a_page_in_the_table_of_all() -> None:
    table = (ROOT / "docs" / "metrics" / "index.md").read_text(encoding="utf-8")
    assert {page.stem for page in METRICS} >= set(nw.metrics.registry.names())
    assert {page.stem for page in METRICS} == set(re.findall(r"\(([\w-]+)\.md\)", table))


@pytest.mark.parametrize("name", sorted(nw.metrics.registry.names()))
def test_every_setting_of_metrics_is_explained(name: str) -> None:
    text = (ROOT / "docs" / "metrics" / f"{name}.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| setting \| default \| meaning \|\n(?:\|.*\n)+", text, re.MULTILINE)
    explained = set(re.findall(r"^\| `(\w+)` \|", "".join(tables), re.MULTILINE))
    assert explained == set(nw.metrics.registry.get(name).Config.model_fields) - {"metric"}


@pytest.mark.parametrize("page", [*METRICS, ROOT / "docs" / "evaluate.md"], ids=name_of)
def test_metric_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = blocks(page.read_text(encoding="utf-8"), "python")
    assert examples
    for example in examples:
        exec(example, {"nw": nw})


def test_worked_metric_of_contributing_is_a_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = (
        block
        for block in blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), "python")
        if "class Shouting" in block
    )
    registry = nw.metrics.registry
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    module = types.ModuleType("nextword.evaluation.metrics.shouting")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, module.__dict__)
    lines = [{"id": 1, "text": "NO way", "reference": "no"}, {"id": 2, "text": "3", "reference": "A"}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = nw.evaluate({"systems": {"x": str(tmp_path / "x.jsonl")}, "metrics": ["shouting"]})
    assert (found.systems[0].values["shouting"].value, found.systems[0].values["shouting"].n) == (0.4, 1)
    assert found.human is not None
    assert found.human.values["shouting"].value == 0.5
