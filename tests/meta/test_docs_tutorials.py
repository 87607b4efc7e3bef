"""The tutorials run from top to bottom, as a reader follows them, and show what they promise."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from nextword.cli import app
from nextword.heads import registry
from tests.helpers.doc_pages import FENCE, ROOT

pytestmark = pytest.mark.docs


def follow(page: str) -> dict[str, Any]:
    """Runs the Python blocks and commands of a tutorial in the current folder, and returns the names they made.

    What stands under "With a real model" needs a hub and is left out.
    """
    runs, real = page.split("\n## With a real model")
    assert real
    names: dict[str, Any] = {}
    for language, body in FENCE.findall(runs):
        if language == "python":
            exec(body, names)
        elif language == "console":
            for command in body.replace("\\\n", " ").splitlines():
                assert not app(shlex.split(command.removeprefix("nextword ")), standalone_mode=False)
    return names


def tutorial(name: str) -> str:
    return (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def test_swap_a_head(capsys: pytest.CaptureFixture[str]) -> None:
    names = follow(tutorial("swap-a-head"))
    scores = names["scores"]
    assert scores["cache"].perplexity < 1.5 < 1.9 < scores["softmax"].perplexity
    printed = capsys.readouterr().out
    assert "Ada found it and gave it to Pip ." in printed
    assert names["written"][0, -1] == names["tokenizer"].eos_token_id, "it has learned to stop"
    assert "from position  3: Ada met Pip" in printed
    assert not names["positions"].requires_grad
    assert names["tokenizer"].decode(names["words"][0, 0]) == "Pip"
    assert names["shares"]["cache"][0, 0] > 0.5
    assert names["again"].config.spec == "cache:published/mle"
    assert Path("page.html").is_file()


def test_measure_texts(capsys: pytest.CaptureFixture[str]) -> None:
    page = tutorial("measure-texts")
    follow(page)
    printed = squeezed(capsys.readouterr().out)
    shown = [line for language, body in FENCE.findall(page) if language == "text" for line in squeezed(body)]
    assert len(shown) > 20
    assert not [line for line in shown if line not in printed]


def test_add_a_head(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = tutorial("add-a-head")
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    for file in ("sharp_head", "said_head"):
        source = FENCE.findall(page.split(f"as `{file}.py`")[1])[0][1]
        Path(f"{file}.py").write_text(source, encoding="utf-8")
        page = page.replace(source, "")
        monkeypatch.delitem(sys.modules, file, raising=False)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    importlib.invalidate_caches()
    steps = "start.training.steps=300 training.steps=100"
    assert steps in page
    names = follow(page.replace(steps, "start.training.steps=3 training.steps=2"))
    assert names["model"].config.spec == "sharp/mle"
    assert re.search(r"^ sharp +\d", capsys.readouterr().out, re.MULTILINE)
    assert Path("page.html").is_file()
