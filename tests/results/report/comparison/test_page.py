from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nextword.results.records import FailedRun, Results
from nextword.results.report import write_report
from nextword.results.report.comparison.page import render
from tests.helpers.made_up_results import METHODS
from tests.helpers.report_pages import drawn, headings, read

Sample = Callable[..., Results]


@pytest.mark.slow
@pytest.mark.figures
def test_page_has_every_section_and_every_method(sample: Sample, tmp_path: Path) -> None:
    results = sample()
    write_report(results, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    text = read(page).text
    for run in results.runs:
        assert text.count(run.method) >= 5  # tables, figures, examples
        assert run.head in text
    assert headings(page) == [
        "Results", "Cost", "Accuracy", "Likelihood", "Rank spectrum", "Learning curves", "Example predictions",
        "Tuned settings", "Details", "Run it again",
    ]  # fmt: skip
    assert results.command in text
    assert "Trained as a softmax; the cache acts at test time only." in text
    assert results.environment.commit is not None
    assert results.environment.commit in text
    assert "temperature = 1.25, weight = none" in text
    assert "서울과 일본 사이에서" in page  # words of any script
    assert page == drawn(results)


def test_page_needs_no_network(sample: Sample) -> None:
    page = drawn(sample())
    assert "http://" not in page
    assert "https://" not in page
    loaded = {(tag, name) for tag, name, value in read(page).attributes if name == "src" or tag in {"script", "iframe"}}
    assert not loaded
    assert "@import" not in page
    assert re.findall(r"url\((?!#)", page) == []


@pytest.mark.figures
def test_without_a_library_that_draws_a_page_has_no_figures(
    sample: Sample, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nextword.results.report.comparison.page.missing", lambda modules: list(modules))
    page = render(sample())
    assert not {"Rank spectrum", "Learning curves"} & set(headings(page))
    assert "pip install 'nextword[experiments]'" in caplog.text


@pytest.mark.slow
def test_hostile_text_is_text(sample: Sample) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    results = sample(methods=[(evil, evil, evil, evil), ("Softmax", "softmax", "mle", None)])
    example = results.runs[0].evaluation.examples[0]
    word = example.top[0].model_copy(update={"word": evil, "sources": {evil: 0.1}})
    evaluation = results.runs[0].evaluation.model_copy(
        update={
            "examples": [
                example.model_copy(update={"prompt": evil, "expected": [evil], "setting": evil, "top": [word]})
            ],
            "tuned": {evil: 1.0},
        }
    )
    runs = [results.runs[0].model_copy(update={"evaluation": evaluation, "settings": {evil: evil}}), results.runs[1]]
    data = {evil: evil}
    changed = results.model_copy(update={"runs": runs, "task": evil, "command": evil, "data": data, "start": data})
    page = drawn(changed)
    reader = read(page)
    assert "<script" not in page
    assert "<img" not in page
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
    assert evil in reader.text


@pytest.mark.slow
@pytest.mark.figures
def test_sections_without_content_are_left_out(lm_sample: Results) -> None:
    page = drawn(lm_sample)
    assert headings(page) == ["Results", "Cost", "Likelihood", "Learning curves", "Details", "Run it again"]
    text = read(page).text
    assert "bits per byte" in text
    assert "Acc@" not in text
    assert "Every seed" not in text


@pytest.mark.slow
def test_one_run(sample: Sample) -> None:
    page = drawn(sample(methods=[("Only", "softmax", "mle", None)]))
    text = read(page).text
    assert "one method measured" in text
    assert "★" not in text  # alone, nothing is best
    assert "the same model" not in text


@pytest.mark.slow
@pytest.mark.figures
def test_twenty_runs(sample: Sample) -> None:
    page = drawn(sample(methods=[(f"Variant number {i}", "mos:3", "mle", None) for i in range(20)]))
    text = read(page).text
    assert all(text.count(f"Variant number {i}") >= 5 for i in range(20))
    assert len(page) < 2_000_000


def test_no_run_yet(sample: Sample) -> None:
    read(drawn(sample(methods=[])))


@pytest.mark.slow
def test_several_seeds_are_all_told(sample: Sample) -> None:
    results = sample(seeds=(3, 7))
    page = drawn(results)
    text = read(page).text
    assert "Every seed with its interval" in text
    assert "in the order 3, 7" in text
    for run in results.runs:
        assert f"{run.evaluation.metrics['acc@5'].value * 100:.1f}" in text


@pytest.mark.slow
def test_missing_seeds_are_told(sample: Sample) -> None:
    results = sample(methods=METHODS[:2], seeds=(1, 2))
    unfinished = results.model_copy(update={"runs": results.runs[:-1]})
    assert read(drawn(unfinished)).text.count("1 of 2 seeds") == 3  # a row of each table
    assert "1 of 2 seeds" not in read(drawn(results)).text


@pytest.mark.few(1)
@pytest.mark.parametrize("share", [0.0, 1e-12, 1.0])
def test_bars_stay_inside(sample: Sample, share: float) -> None:
    results = sample(methods=[("a", "cache", "mle", None)])
    example = results.runs[0].evaluation.examples[0]
    word = example.top[0].model_copy(update={"probability": share, "sources": {"cache": share}})
    evaluation = results.runs[0].evaluation.model_copy(
        update={"examples": [example.model_copy(update={"top": [word]})]}
    )
    page = drawn(results.model_copy(update={"runs": [results.runs[0].model_copy(update={"evaluation": evaluation})]}))
    widths = [float(width) for width in re.findall(r'class="s\d" style="width:([\d.]+)%"', page)]
    assert widths == ([] if share == 0 else [100.0])


@pytest.mark.slow
@pytest.mark.figures
def test_same_results_same_page(sample: Sample) -> None:
    assert render(sample()) == drawn(sample())


@pytest.mark.slow
def test_what_failed_is_said_where_its_numbers_would_be(sample: Sample) -> None:
    results = sample()
    failed = FailedRun(
        method="<mos>", head="mos:3", objective="mle", seed=4, reason="diverged at step 2: the loss is nan"
    )
    first = results.runs[0]
    evaluation = first.evaluation.model_copy(update={"undefined": {"perplexity": "inf"}})
    runs = [first.model_copy(update={"evaluation": evaluation}), *results.runs[1:]]
    page = read(drawn(results.model_copy(update={"failures": [failed], "runs": runs}))).text
    assert "<mos>, seed 4" in page
    assert "diverged at step 2: the loss is nan" in page
    assert "perplexity is inf" in page
    assert "Without a result" not in read(drawn(results)).text


def test_a_page_of_which_every_run_failed(sample: Sample) -> None:
    failed = FailedRun(
        method="mos", head="mos:3", objective="mle", seed=0, reason="RuntimeError", traceback="runs/f.txt"
    )
    page = read(drawn(sample().model_copy(update={"failures": [failed], "runs": []})))
    assert "RuntimeError (runs/f.txt)" in page.text
