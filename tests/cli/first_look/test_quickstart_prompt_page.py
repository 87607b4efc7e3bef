"""The quickstart's page of one prompt: its first method against the one that is ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

from nextword.cli.first_look.quickstart import write_prompt_page
from nextword.experiments.comparison.all_methods import compare
from nextword.experiments.comparison.comparison_settings import CompareConfig, configured, read
from nextword.results.records import Results

SMALL = [
    "task.start.documents=100", "task.start.knows=0", "start.training.steps=2", "task.train_prompts=8",
    "task.validation_prompts=4", "task.test_prompts=6", "task.rank_rows=70", "training.steps=2", "threads=1",
    "methods=[{head='softmax'}, {head='cache', label='cache (TRIME)'}]",
]  # fmt: skip


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[CompareConfig, Results, Path]:
    out = tmp_path_factory.mktemp("quickstart")
    config = configured(read("quickstart"), SMALL)
    return config, compare(config, out), out


def test_the_page_stands_beside_the_report_and_is_linked(compared: tuple[CompareConfig, Results, Path]) -> None:
    config, results, out = compared
    page = write_prompt_page(config, results, out)
    assert page == out / "inspect.html"
    prompt = results.runs[0].evaluation.examples[0]
    text = page.read_text(encoding="utf-8")
    assert prompt.prompt.split()[1] in text
    assert prompt.expected[-1] in text
    assert "cache (TRIME)" in text
    assert 'href="inspect.html"' in (out / "report.html").read_text(encoding="utf-8")


def test_without_models_there_is_no_page(compared: tuple[CompareConfig, Results, Path], tmp_path: Path) -> None:
    config, results, _ = compared
    assert write_prompt_page(config, results, tmp_path) is None


def test_one_method_is_not_compared(compared: tuple[CompareConfig, Results, Path]) -> None:
    config, results, out = compared
    alone = results.model_copy(update={"runs": results.runs[:1]})
    assert write_prompt_page(config, alone, out) is None
