from __future__ import annotations

import re
from pathlib import Path

import pytest

from nextword.results.records.reproduced_table import ReproducedCell, ReproducedTable
from nextword.results.report import write_reproduced_tables
from nextword.results.report.reproduction_page import render_reproduction
from tests.helpers.report_pages import headings, read, tables
from tests.helpers.reproduced_tables import PAPER, picture, table


@pytest.fixture(scope="module")
def page() -> str:
    return render_reproduction([table()])


def test_the_paper_s_numbers_stand_beside_ours(page: str) -> None:
    read(page)
    (cells,) = tables(page, "reproduced")
    assert cells[0] == ["", "Full", "Cache-Only", ""]
    assert cells[1][:4] == ["Row", "Whose", "Acc@2 ↑", "Acc@5 ↑"]
    assert cells[2][:4] == ["Softmax", "paper", "20.25", "21.25"]
    assert cells[3][:3] == ["here", "20.10", "21.10"]
    assert cells[4][:3] == ["HistAlign", "paper", "32.75"]
    assert cells[5][-4:] == ["40.60", "–", "410", "5-2"]
    assert cells[6][1:3] == ["paper", "50.50"]
    assert cells[7] == ["here", "not at scale small"]
    assert "<small>19.60\N{EN DASH}20.60</small>" in page


def test_every_reason_and_the_number_of_seeds_is_told(page: str) -> None:
    text = read(page).text
    assert "the mean over 3 seeds unless another number stands below it" in text
    assert "410<small>one seed</small>" in page
    assert "without a number here: no text is long enough (Softmax; HistAlign)" in text
    assert '<abbr title="no text is long enough">' in page
    assert "Without a memory." in text
    assert "87.3 ± 0.4" in text
    assert "What differs at scale small: GPT-2 is a small one." in " ".join(text.split())


def test_claims_and_what_decided_them(page: str) -> None:
    text = read(page).text
    verdicts = re.findall(r'<strong class="whole outcome">(.*?)</strong>', page)
    assert verdicts == ["? inconclusive (1 of 2)", "✓ supported", "✗ not supported", "– not testable"]
    assert "it takes people" in text
    rows = [cells for found in tables(page, "facets") for cells in found if cells[0].startswith("HistAlign −")]
    assert rows[0] == ["HistAlign − TRIME, Full: Acc@2", "+17", "+12.3 (+10.5 to +14.2, 3 seeds)", "✓ supported"]
    assert rows[1][2:] == ["+3 (one seed so far)", "? inconclusive"]
    assert rows[3][2:] == ["-3 (-4 to -2, 3 seeds)", "✗ not supported"]


def test_links_lead_from_the_page_s_folder(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_reproduced_tables([picture()], path, root="../../../")
    attributes = read(path.read_text(encoding="utf-8")).attributes
    links = [value for tag, name, value in attributes if (tag, name) == ("a", "href")]
    assert links == [
        "../../../experiments/small/ambiguous/report.html#examples",
        "../../../experiments/small/ambiguous/report.html",
    ]


def test_many_tables_have_a_list_of_contents_by_paper(page: str) -> None:
    many = render_reproduction([table(), picture(), table("f2-softmax/table-1", paper="F2")])
    contents = many[many.index('<nav class="contents"') : many.index("</nav>")]
    assert re.findall(r"<h2>(.*?)</h2>", contents) == [PAPER, "F2"]
    anchors = re.findall(r'href="#([^"]+)"', contents)
    assert anchors == ["histalign-table-1-small", "histalign-figure-1-small", "f2-softmax-table-1-small"]
    assert all(f'<section id="{anchor}">' in many for anchor in anchors)
    assert "✓ 1 supported" in contents
    assert "<nav" not in page


def test_the_same_table_at_two_scales_has_two_anchors() -> None:
    page = render_reproduction([table(), table(scale="paper")])
    assert re.findall(r'<section id="(.*?)">', page) == ["histalign-table-1-small", "histalign-table-1-paper"]


def test_a_table_without_any_number_here() -> None:
    bare = table(rows=[table().rows[2]], claims=[], experiments=[])
    page = render_reproduction([bare])
    read(page)
    assert "seeds" not in page[page.index("<main>") :]
    assert headings(page) == ["histalign/table-1: Ambiguous Template"]


def test_hostile_texts_are_text() -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    rows = [
        row.model_copy(update={"title": evil, "note": evil, "cells": [one_evil(cell, evil) for cell in row.cells]})
        for row in table().rows
    ]
    claims = [claim.model_copy(update={"text": evil, "reason": evil, "note": evil}) for claim in table().claims]
    made = ReproducedTable.model_validate(
        table(name=evil, paper=evil, title=evil, note=evil, command=evil, rows=rows, claims=claims)
    )
    page = render_reproduction([made, picture()])
    assert "<script" not in page
    assert "<img" not in page
    assert read(page).text.count(evil) > 10


def one_evil(cell: ReproducedCell, evil: str) -> ReproducedCell:
    return cell.model_copy(update={"missing": evil if cell.missing else None})
