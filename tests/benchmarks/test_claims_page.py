from __future__ import annotations

import shutil

import claims_page
import pytest

from nextword.records.reproduced_table import RanExperiment
from nextword.reproduction.paper import find_table
from nextword.reproduction.table_record import table_record

TABLE = "histalign/table-1"


def made_up_record(**changes):
    """A table of which an experiment was run that had no number for it."""
    ran = RanExperiment(
        name="ambiguous", recipe="quickstart", command="x", task="ambiguous", seeds=[0, 1, 2], start="here",
        data="there", minutes=4.0, report="experiments/small/ambiguous/report.html",
    )  # fmt: skip
    record = table_record(TABLE, find_table(TABLE), {}, "small", "nextword reproduce x")
    cells = [cell.model_copy(update={"value": 1.0, "missing": None}) for cell in record.rows[0].cells]
    rows = [record.rows[0].model_copy(update={"cells": cells}), *record.rows[1:]]
    return record.model_copy(update={"experiments": [ran], "rows": rows, "shown_in": "x#y", **changes})


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "docs").mkdir()
    shutil.copy(claims_page.DOCS / "claims.md", tmp_path / "docs" / "claims.md")
    return tmp_path / "docs"


def test_the_pages_are_those_of_the_committed_records():
    claims_page.main(["--check"])


def test_tables_are_taken_in_without_links_to_pages_that_are_not_here(docs, tmp_path):
    made_up_record().save(tmp_path / "out" / "tables" / "small" / f"{TABLE}.json")
    nothing_of_ours = made_up_record(name="histalign/table-4", experiments=[], rows=[])
    nothing_of_ours.save(tmp_path / "out" / "tables" / "small" / "x.json")
    claims_page.main(["--docs", str(docs), "--add", str(tmp_path / "out")])
    (record,) = claims_page.records_in(docs / "results" / "papers")
    assert (record.name, record.experiments[0].report, record.shown_in) == (TABLE, None, None)
    assert record.command == record.experiments[0].command == f"nextword reproduce {TABLE} --scale small --data DATA"
    page = (docs / "results" / "papers" / "histalign.md").read_text()
    assert "## histalign/table-1" in page
    assert "`quickstart`, 3 seeds, 4 minutes" in page
    claims_page.main(["--docs", str(docs), "--check"])


def test_settings_are_taken_in_although_nothing_was_run_for_them(docs, tmp_path):
    made_up_record(name="histalign/table-8", experiments=[]).save(tmp_path / "out" / "tables" / "small" / "x.json")
    claims_page.main(["--docs", str(docs), "--add", str(tmp_path / "out")])
    page = (docs / "results" / "papers" / "histalign.md").read_text()
    assert "In bold ours, below it the paper's." in page


def test_a_claim_is_waiting_until_its_table_was_run(docs, tmp_path):
    claim = next(one for one in find_table(TABLE).claims if one.headline and not one.not_testable)
    waiting = f"- `{TABLE}`: {' '.join(claim.text.split())}"
    claims_page.main(["--docs", str(docs)])
    before = (docs / "claims.md").read_text()
    made_up_record().save(tmp_path / "out" / "tables" / "small" / f"{TABLE}.json")
    claims_page.main(["--docs", str(docs), "--add", str(tmp_path / "out")])
    after = (docs / "claims.md").read_text()
    assert waiting in before
    assert waiting not in after
    assert f"| {TABLE}, scale small |" in after


def test_an_old_page_is_found(docs):
    claims_page.main(["--docs", str(docs)])
    page = docs / "claims.md"
    page.write_text(page.read_text().replace("- `histalign/table-2`", "- `other`"))
    with pytest.raises(SystemExit, match="older than the records"):
        claims_page.main(["--docs", str(docs), "--check"])
