from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from nextword.results.records.reproduced_table import ReproducedTable
from nextword.results.report import reproduced_table
from tests.helpers.reproduced_tables import picture, table


def shown(one: ReproducedTable, width: int = 80) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(reproduced_table(one))
    return file.getvalue()


def test_every_column_is_there_and_the_paper_s_number_below_ours() -> None:
    text = shown(table())
    assert re.search(r"HistAlign +32\.60 +33\.60", text)
    assert re.search(r"32\.10–33\.10 +33\.10–34\.10", text)
    assert re.search(r"\(32\.75\) +\(33\.75\)", text)
    ours = ("20.10", "21.10", "22.10", "23.10", "24.10", "25.10", "26.10", "27.10", "28.10")
    assert [number for number in ours if number not in text] == []
    assert re.search(r"410", text)
    assert "5-2" in text
    assert "one seed" in text


def test_reasons_and_verdicts_are_told() -> None:
    text = " ".join(shown(table()).split())
    assert "without a number here, not at scale small: GPT2-Large, HistAlign" in text
    assert "without a number here, no text is long enough: Softmax; HistAlign" in text
    assert "Claims: 1 supported, 1 not supported, 1 inconclusive, 1 not testable" in text
    assert "✗ not supported: A rank above the width. -3" in text
    assert "mean over 3 seeds" in text
    assert "GPT-2 is a small one." in text


def test_a_picture_says_where_it_is() -> None:
    text = shown(picture())
    assert "shown in experiments/small/ambiguous/report.html#examples" in text
    assert "Claims" not in text
    assert "interval" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits(width: int) -> None:
    assert max(len(line.rstrip()) for line in shown(table(), width).splitlines()) <= width


def test_brackets_in_titles_are_no_markup() -> None:
    rows = [row.model_copy(update={"title": "[bold]x[/y]"}) for row in table().rows]
    assert "[bold]x[/y]" in shown(table(rows=rows, name="a[/b]"))
