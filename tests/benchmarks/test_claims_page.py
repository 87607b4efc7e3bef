from __future__ import annotations

import shutil

import claims_page
import pytest
from pictures import claims
from pictures.style import write

from nextword.experiments.reproduction.paper import find_table, names
from nextword.experiments.reproduction.reproduce_tables import all_tables
from nextword.experiments.reproduction.table_record import table_record
from nextword.results.records.reproduced_table import RanExperiment, ReproducedTable
from nextword.results.report.tables_markdown import plain

TABLE = "histalign/table-1"


def made_up_record(name=TABLE, **changes):
    """A table of which an experiment was run that had no number for it."""
    ran = RanExperiment(
        name="ambiguous", recipe="quickstart", command="x", task="ambiguous", seeds=[0, 1, 2], start="here",
        data="there", minutes=4.0, report="experiments/small/ambiguous/report.html",
    )  # fmt: skip
    record = table_record(name, find_table(name), {}, "small", "nextword reproduce x")
    cells = [cell.model_copy(update={"value": 1.0, "missing": None}) for cell in record.rows[0].cells]
    rows = [record.rows[0].model_copy(update={"cells": cells}), *record.rows[1:]]
    return record.model_copy(update={"experiments": [ran], "rows": rows, "shown_in": "x#y", **changes})


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "docs" / "records").mkdir(parents=True)
    shutil.copy(claims_page.DOCS / "claims.md", tmp_path / "docs" / "claims.md")
    return tmp_path / "docs"


def test_the_pages_are_those_of_the_committed_records():
    claims_page.main(["--check"])


def test_every_claim_of_every_table_stands_on_the_page_of_its_paper():
    for name in all_tables():
        paper, _, _ = name.partition("/")
        page = (claims_page.DOCS / "records" / "papers" / f"{paper}.md").read_text("utf-8")
        section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
        for claim in find_table(name).claims:
            assert f"**{plain(claim.text)}**" in section, f"{name}: {claim.text}"


@pytest.mark.parametrize("page", ["claims.md", "results/index.md"])
def test_the_pages_of_all_papers_are_linked(page):
    text = (claims_page.DOCS / page).read_text("utf-8")
    assert [name for name in names() if f"papers/{name}.md)" not in text] == []


@pytest.mark.slow
def test_a_record_whose_table_has_changed_is_found_and_judged_anew(docs):
    path = docs / "records" / "papers" / "small" / f"{TABLE}.json"
    made_up_record(note="an old note").save(path)
    claims_page.main(["--docs", str(docs)])
    assert ReproducedTable.load(path).note == find_table(TABLE).note
    made_up_record(claims=[]).save(path)
    with pytest.raises(SystemExit, match="older than its table"):
        claims_page.main(["--docs", str(docs), "--check"])


@pytest.mark.slow
def test_tables_are_taken_in_without_links_to_pages_that_are_not_here(docs, tmp_path):
    made_up_record().save(tmp_path / "out" / "tables" / "small" / f"{TABLE}.json")
    nothing_of_ours = made_up_record(name="histalign/table-4", experiments=[], rows=[])
    nothing_of_ours.save(tmp_path / "out" / "tables" / "small" / "x.json")
    claims_page.main(["--docs", str(docs), "--add", str(tmp_path / "out")])
    (record,) = claims_page.records_in(docs / "records" / "papers")
    assert (record.name, record.experiments[0].report, record.shown_in) == (TABLE, None, None)
    assert record.command == record.experiments[0].command == f"nextword reproduce {TABLE} --scale small --data DATA"
    page = (docs / "records" / "papers" / "histalign.md").read_text()
    assert "## histalign/table-1" in page
    assert "`quickstart`, 3 seeds, 4 minutes" in page
    claims_page.main(["--docs", str(docs), "--check"])


@pytest.mark.slow
def test_settings_are_taken_in_although_nothing_was_run_for_them(docs, tmp_path):
    made_up_record(name="histalign/table-8", experiments=[]).save(tmp_path / "out" / "tables" / "small" / "x.json")
    claims_page.main(["--docs", str(docs), "--add", str(tmp_path / "out")])
    page = (docs / "records" / "papers" / "histalign.md").read_text()
    assert "In bold ours, below it the paper's." in page


@pytest.mark.slow
def test_a_claim_is_waiting_until_its_table_was_run(docs, tmp_path):
    claim = next(one for one in find_table(TABLE).claims if one.headline and not one.not_testable)
    waiting = f"- `{TABLE}`: {' '.join(claim.text.split())}"
    claims_page.main(["--docs", str(docs)])
    before = (docs / "records" / "claims.md").read_text()
    made_up_record().save(tmp_path / "out" / "tables" / "small" / f"{TABLE}.json")
    claims_page.main(["--docs", str(docs), "--add", str(tmp_path / "out")])
    after = (docs / "records" / "claims.md").read_text()
    assert waiting in before
    assert waiting not in after
    assert f"| [{TABLE}](papers/histalign.md#histaligntable-1), scale small |" in after


@pytest.mark.slow
def test_an_old_page_is_found(docs):
    claims_page.main(["--docs", str(docs)])
    page = docs / "records" / "claims.md"
    page.write_text(page.read_text().replace("- `histalign/table-2`", "- `other`"))
    with pytest.raises(SystemExit, match="older than the records"):
        claims_page.main(["--docs", str(docs), "--check"])


def test_outcomes_are_counted_by_paper():
    guide = (claims_page.DOCS / "claims.md").read_text("utf-8")
    lines = guide.partition("<!-- outcomes -->")[2].partition("<!-- end -->")[0].strip().splitlines()
    assert lines[0] == "| paper | scale | supported | not supported | inconclusive | not testable |"
    small = [line for line in lines[2:] if "| small |" in line]
    assert len(small) == len(names())
    claims = [claim for name in all_tables() for claim in find_table(name).claims if claim.headline]
    counted = [int(cell) for line in small for cell in line.split("|")[3:-1]]
    assert sum(counted) == len(claims)
    assert f"the {len(claims)} main claims" in guide


@pytest.fixture(scope="module")
def recorded():
    return claims_page.records_in(claims_page.DOCS / "records" / "papers")


def test_the_charts_have_main_claims_with_a_printed_difference(recorded):
    assert [len(claims.drawn(recorded, paper)) > 3 for paper in claims.PAPERS] == [True] * 4
    for paper in claims.PAPERS:
        headlines = {one.text: one.outcome for table in recorded for one in table.claims if one.headline}
        for claim in claims.drawn(recorded, paper):
            assert claim.dots or headlines[claim.text] == "not testable"
            assert all(one.printed and one.difference is not None for one, _ in claim.dots)


def test_a_claim_that_two_scales_tested_is_one_row_with_dots_of_both(recorded):
    (table,) = (one for one in recorded if (one.name, one.scale) == (TABLE, "small"))
    both = claims.drawn([table, table.model_copy(update={"scale": "pretrained"})], "histalign")
    alone = claims.drawn([table], "histalign")
    assert [one.text for one in both] == [one.text for one in alone]
    assert [scale for _, scale in both[0].dots].count("pretrained") == len(alone[0].dots) > 0


@pytest.mark.figures
def test_a_chart_is_drawn(recorded, tmp_path):
    light, _ = write("claims", claims.pictures(recorded)["claims/histalign"], tmp_path)
    assert "printed difference" in light.read_text("utf-8")
    assert "not supported" in light.read_text("utf-8")
