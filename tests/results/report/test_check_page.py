from __future__ import annotations

from pathlib import Path

import torch

import nextword as nw
from nextword.results.records.check_results import CheckResults
from nextword.results.report.check_page import render_check, write_check


def test_record_and_page_tell_the_faults(tmp_path: Path) -> None:
    report = nw.check(lambda prefixes: torch.zeros(len(prefixes), 3), vocabulary=3, lengths=[4])
    write_check(report.record(), tmp_path / "out")
    record = CheckResults.load(tmp_path / "out" / "check.json")
    assert record == report.record().model_copy(update={"environment": record.environment})
    assert [one.fault for one in record.findings] == ["sum"]
    assert record.exit_code == 1
    page = (tmp_path / "out" / "check.html").read_text()
    assert "assigns 3 in total" in page
    assert "&lt;lambda&gt; in float32 checked" in page
    assert page == render_check(record)
    assert '<table class="facets unbroken">' in page  # words on the left, and they wrap


def test_a_right_scorer_has_a_page_without_faults() -> None:
    report = nw.check(lambda prefixes: torch.full((len(prefixes), 2), 0.5).log(), vocabulary=2, lengths=[4])
    page = render_check(report.record())
    assert "No fault was found." in page
    assert "Smallest input" not in page


def test_an_infinite_deviation_is_written() -> None:
    report = nw.check(lambda prefixes: torch.full((len(prefixes), 3), torch.nan), vocabulary=3, lengths=[4])
    record = report.record()
    assert record.findings[0].fault == "negative"
    assert record.findings[0].amount is None
