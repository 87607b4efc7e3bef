from __future__ import annotations

from collections.abc import Callable

from nextword.records import Results
from nextword.report import leader, results_table, write_report
from nextword.report.comparison.finding import finding
from nextword.report.comparison.method_tables import main_table

Sample = Callable[..., Results]


def test_the_leader_has_the_best_mean_of_the_first_measure(sample: Sample) -> None:
    results = sample(seeds=(1, 2, 3))
    table = main_table(results)
    place = next(i for i, column in enumerate(table.columns) if column.main and column.better)
    means = {row.method.label: row.cells[place].mean or 0.0 for row in table.rows}
    best = max(means.values()) if table.columns[place].better == "higher" else min(means.values())
    assert leader(results) is not None
    assert means[str(leader(results))] == best
    assert str(leader(results)) in finding(results)
    assert "mean of 3 seeds, lowest to highest" in finding(results)


def test_one_seed_is_called_one_seed(sample: Sample) -> None:
    assert "one seed" in finding(sample())


def test_one_method_has_no_finding(sample: Sample) -> None:
    results = sample()
    alone = results.model_copy(update={"runs": results.runs[:1]})
    assert finding(alone) == ""
    assert leader(alone) is None


def test_the_report_links_a_page_beside_it(sample: Sample, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write_report(sample(), tmp_path / "report.html")
    assert "inspect.html" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    (tmp_path / "inspect.html").write_text("a page")
    write_report(sample(), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'href="inspect.html"' in page
    assert finding(sample()).partition(":")[0] in page
    assert results_table(sample()) is not None
