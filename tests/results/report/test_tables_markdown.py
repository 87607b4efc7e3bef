from __future__ import annotations

from nextword.results.report import tables_markdown
from nextword.results.report.tables_markdown import plain
from tests.helpers.reproduced_tables import missing_row, picture
from tests.helpers.reproduced_tables import table as wide


def test_text_stands_as_it_is_in_a_cell():
    assert plain("a|b *c*\n<d>") == r"a\|b \*c\*" + " &lt;d>"


def test_what_has_no_number_here_is_left_out():
    assert tables_markdown([picture()]) == ""


def test_every_claim_stands_below_its_table_with_few_comparisons_or_none():
    page = tables_markdown([wide()])
    assert "**The memory alone is enough.** ✓ supported\n\n| difference | paper | here | |\n" in page
    assert "**People prefer it.** (section 6.2) – not testable: it takes people." in page


def test_claims_of_a_table_without_numbers_here_stand_alone():
    made = wide().model_copy(update={"rows": [missing_row("GPT2-Large", "not run yet")]})
    page = tables_markdown([made])
    assert "No number here: not run yet (GPT2-Large)." in page
    assert "**People prefer it.**" in page
    assert "| GPT2-Large |" not in page
    assert "In bold ours" not in page


def test_what_stands_for_the_paper_s_own_is_listed():
    page = tables_markdown([wide()])
    assert "What differs at scale small:\n\n- GPT-2 is a small one.\n" in page
    assert "What differs" not in tables_markdown([wide(differs=[])])


def test_every_row_has_a_cell_for_each_column_and_names_its_number():
    table = wide()
    page = tables_markdown([table])
    rows = [line for line in page.partition("**HistAlign puts")[0].splitlines() if line.startswith("| ")]
    assert {line.replace(r"\|", "").count("|") for line in rows} == {len(table.columns) + 2}
    assert len(rows) == len(table.rows) + 2
    for row in table.rows:
        (line,) = (line for line in rows if line.startswith(f"| {plain(row.title)} |"))
        assert line.count("**") == 2 * len(table.columns)


def test_a_reason_names_all_rows_that_lack_a_number_for_it():
    made = wide()
    page = tables_markdown(
        [made.model_copy(update={"rows": [*made.rows, missing_row("GPT2-Large, TRIME", "not at scale small")]})]
    )
    assert "not at scale small (GPT2-Large, HistAlign; GPT2-Large, TRIME)." in page
    assert "no text is long enough (Softmax; HistAlign)." in page
