"""What the pages of the metrics say holds: every metric has a card, which names its settings, and its example runs."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import pytest

import nextword as nw
import nextword.evaluation.judges
from tests.helpers.doc_pages import ROOT, blocks, name_of, website_module

pytestmark = pytest.mark.docs

PAGES = sorted((ROOT / "docs" / "metrics").glob("*.md"))
CARDS = [
    (page, *card.groups())
    for page in PAGES
    for card in re.finditer(
        r"^## `([\w-]+)`\n(.*?)(?=^## |\Z)", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
]
"""Page, metric and text of each card."""


def test_every_metric_has_one_card_and_nothing_else_but_rank_has() -> None:
    assert sorted(name for _, name, _ in CARDS) == sorted([*nw.metrics.registry.names(), "rank"])


@pytest.mark.parametrize(("name", "card"), [card[1:] for card in CARDS], ids=[card[1] for card in CARDS])
def test_cards_follow_the_template(name: str, card: str) -> None:
    assert re.match(r"\n[A-Z][^\n]+\.", card), "begins with a sentence"
    labels = re.findall(r"^- \*\*([\w ]+)\*\*: ", card, re.MULTILINE)
    assert [label for label in labels if label in ("Range", "Trap", "Source")] == ["Range", "Trap", "Source"]
    assert "$" in re.sub(r"```.*?```", "", card, flags=re.DOTALL) or name in ("rep", "sp"), "a formula"
    (command,) = blocks(card, "console")
    assert name == "rank" or f"--metrics {name}" in command
    assert len(blocks(card, "python")) == 1


@pytest.mark.parametrize("name", sorted(nw.metrics.registry.names()))
def test_every_setting_of_metrics_is_explained(name: str) -> None:
    (text,) = (card for _, metric, card in CARDS if metric == name)
    tables = re.findall(r"^\| setting \| default \| meaning \|\n(?:\|.*\n)+", text, re.MULTILINE)
    explained = set(re.findall(r"^\| `(\w+)` \|", "".join(tables), re.MULTILINE))
    assert explained == set(nw.metrics.registry.get(name).Config.model_fields) - {"metric"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_of_metrics_are_of_today(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == website_module("metric_tables").filled(text), "run python website/metric_tables.py"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *[pytest.param(blocks(card, "python"), name, id=name) for _, name, card in CARDS],
        pytest.param(blocks((ROOT / "docs" / "evaluate.md").read_text(encoding="utf-8"), "python"), "", id="evaluate"),
    ],
)
def test_metric_examples_run(text: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert text, name
    for example in text:
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


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        (None, "none"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (1, "1"),
        (0.5, "0.5"),
        ((), "none"),
        ((1, 2), "1, 2"),
    ],
)
def test_a_default_is_shown_as_it_is_written(default: object, shown: str) -> None:
    assert website_module("metric_tables").shown(default) == shown
