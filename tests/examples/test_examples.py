"""The examples run offline and say what they promise."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.docs

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for path in EXAMPLES.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return importlib.import_module(request.param)


@pytest.mark.parametrize("example", ["attach_and_generate"], indirect=True)
def test_attach_and_generate(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    printed = capsys.readouterr().out
    assert "is a distribution: True" in printed
    assert "to the last bit: True" in printed


@pytest.mark.parametrize("example", ["follow_a_summary"], indirect=True)
def test_follow_a_summary(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main(steps=50)
    found = re.findall(r"^(.+): ([\d.]+) nats .* ([\d.]+) with any$", capsys.readouterr().out, re.MULTILINE)
    assert [name for name, _, _ in found] == ["dau + softmax", "bergpt + softmax", "bergpt + pg:published"]
    for name, right, wrong in found:
        assert float(right) < float(wrong) - (0.01 if name.startswith("dau") else 0.3)


@pytest.mark.parametrize("example", ["compare_heads"], indirect=True)
def test_compare_heads(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main(steps=12)
    rows = [row.split() for row in capsys.readouterr().out.splitlines()[1:]]
    nats = {(head, objective): float(value) for head, objective, _, value in rows}
    assert list(nats) == example.METHODS
    assert all(0.6 < value < 2.6 for value in nats.values())  # ln 2 is the best possible, ln 14 knows nothing
    assert max(nats["cache:published", "mle"], nats["cache:published", "histalign"]) < nats["softmax", "mle"]


@pytest.mark.parametrize("example", ["where_did_it_come_from"], indirect=True)
def test_where_did_it_come_from(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main(steps=12)
    lines = re.findall(r"^  \w+ +(\d\.\d+) .*?((?:\w+ \d\.\d{3}(?:, )?)+)$", capsys.readouterr().out, re.MULTILINE)
    assert len(lines) == 12  # four words in each of three modes
    for probability, parts in lines:
        assert sum(map(float, re.findall(r"\d\.\d{3}", parts))) == pytest.approx(float(probability), abs=2e-3)


@pytest.mark.parametrize("example", ["frequency_classes"], indirect=True)
def test_frequency_classes(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main(steps=30)
    printed = capsys.readouterr().out
    losses = [float(found) for found in re.findall(r"([\d.]+) nats per word", printed)]
    assert losses[-1] < losses[0] - 0.5
    shares = [float(found) for found in re.findall(r"class \d+: ([\d.]+)", printed)]
    assert sum(shares) == pytest.approx(1, abs=0.01)
    first, second = re.findall(r"decoupled=(?:True|False): (.+)", printed)
    assert first != second


@pytest.mark.parametrize("example", ["text_to_page"], indirect=True)
def test_text_to_page(example: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    example.main(tmp_path, steps=12)
    printed = capsys.readouterr().out
    assert [line.split()[2] for line in printed.splitlines() if line.startswith("$ ")] == [
        "train", "train", "score", "generate", "inspect",
    ]  # fmt: skip
    assert "cache − softmax" in printed
    samples = [json.loads(path.read_text()) for path in sorted((tmp_path / "texts").glob("*.jsonl"))]
    assert [one["decoding"] for one in samples] == ["greedy", "top-p 0.9"]
    assert all(len(one["shares"]["cache"]) == len(one["token_ids"]) == 20 for one in samples)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Where they differ" in page
    assert "in windows of 256 tokens" in page
