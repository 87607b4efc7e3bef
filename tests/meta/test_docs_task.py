"""The task of docs/add-a-task.md is one: registered from the page, two methods are compared on it."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from nextword.experiments.comparison.all_methods import compare
from nextword.experiments.comparison.comparison_settings import build_task, configured
from nextword.experiments.tasks import registry
from nextword.functional.padding import IGNORED_LABEL

pytestmark = pytest.mark.docs

PAGE = Path(__file__).parents[2] / "docs" / "add-a-task.md"
MAX_LINES = 100
SETTINGS = {"pairs": 3, "start": {"n_layer": 1, "n_embd": 16, "n_head": 2, "steps": 2}}
RECIPE = {"task": {"name": "recall", **SETTINGS}, "methods": ["softmax", "cache"], "training": {"steps": 2}}


def example() -> str:
    (source,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return source


@pytest.fixture
def recall(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The module of the page, registered for one test only."""
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    module = types.ModuleType("nextword.experiments.tasks.recall")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(example(), module.__dict__)
    return module


def test_the_example_is_short() -> None:
    assert len(example().splitlines()) < MAX_LINES


def test_rows_ask_for_the_number_that_stood_after_the_letter(recall: types.ModuleType) -> None:
    task = build_task(configured(RECIPE))
    tokenizer = task.start.tokenizer()
    rows = task.data.training(tokenizer)
    assert len(rows) == 1000
    for ids, labels in zip(rows["input_ids"], rows["labels"], strict=True):
        assert labels == [IGNORED_LABEL] * (len(ids) - 1) + ids[-1:]
        *shown, letter, number = tokenizer.decode(ids[1:]).split()
        assert shown[shown.index(letter) + 1] == number


def test_two_methods_are_compared_on_it(recall: types.ModuleType, tmp_path: Path) -> None:
    results = compare(configured(RECIPE), tmp_path)
    assert [run.method for run in results.runs] == ["softmax", "cache"]
    for run in results.runs:
        measure = run.evaluation.metrics["acc@1"]
        assert (measure.n, measure.unit) == (100, "of rows")
        assert measure.low <= measure.value <= measure.high
    assert results.data["leak_rows"] == 0
    assert (tmp_path / "report.html").exists()
