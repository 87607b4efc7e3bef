from __future__ import annotations

from collections.abc import Callable

import pytest

from nextword.results.records import Results
from nextword.results.report import leader, results_table, write_report
from nextword.results.report.comparison.method_tables import finding, main_table
from tests.helpers.made_up_results import lm_run

Sample = Callable[..., Results]


def test_the_leader_has_the_best_mean_of_the_first_measure(sample: Sample) -> None:
    results = sample(seeds=(1, 2, 3))
    table = main_table(results)
    place = next(i for i, column in enumerate(table.columns) if column.main and column.goal)
    means = {row.label: row.cells[place].value or 0.0 for row in table.rows}
    best = max(means.values()) if table.columns[place].goal == "higher" else min(means.values())
    assert leader(results) is not None
    assert means[str(leader(results))] == best
    assert str(leader(results)) in finding(results)
    assert "mean of 3 seeds, lowest to highest" in finding(results)


def test_one_seed_is_called_one_seed(sample: Sample) -> None:
    assert "one seed" in finding(sample())


def test_a_cache_at_temperature_1_that_lost_to_the_softmax_is_told_what_to_try(sample: Sample) -> None:
    def found(*heads: str) -> str:
        """What is said where each of the heads is better than the one before it."""
        return finding(sample(lm_run, methods=[(head, head, "mle", None) for head in heads], task="lm"))

    hint = "also compare --head cache:temperature=2 --head cache:temperature=4"
    assert hint in found("cache", "softmax")
    pretrained = sample(lm_run, methods=[(head, head, "mle", None) for head in ("cache", "softmax")], task="lm")
    settings = {**pretrained.settings, "start": {"model": "gpt2"}}  # where the temperature is one that fits its states
    assert hint not in finding(pretrained.model_copy(update={"settings": settings}))
    assert hint in found("mos:3", "cache", "softmax")
    assert hint not in found("softmax", "cache")
    assert hint not in found("cache", "cache:temperature=4", "softmax")
    assert hint not in found("cache:temperature=2,weight=0.1", "softmax")
    assert hint not in found("cache", "mos:3")
    methods = [
        (label, head, "mle", None) for label, head in (("added", "cache"), ("s", "softmax"), ("trained", "cache"))
    ]
    assert hint not in finding(sample(lm_run, methods=methods, task="lm"))


def test_one_method_has_no_finding(sample: Sample) -> None:
    results = sample()
    alone = results.model_copy(update={"runs": results.runs[:1]})
    assert finding(alone) == ""
    assert leader(alone) is None


@pytest.mark.slow
def test_the_report_links_a_page_beside_it(sample: Sample, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write_report(sample(), tmp_path / "report.html")
    assert "inspect.html" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    (tmp_path / "inspect.html").write_text("a page")
    write_report(sample(), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'href="inspect.html"' in page
    assert finding(sample()).partition(":")[0] in page
    assert results_table(sample()) is not None
