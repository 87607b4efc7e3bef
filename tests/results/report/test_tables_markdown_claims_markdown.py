from __future__ import annotations

from nextword.results.report import claims_markdown, tables_markdown
from tests.helpers.reproduced_tables import CLAIMS, HELD, ONCE, picture, table


def rows_of(text: str) -> list[list[str]]:
    """The cells of the rows that are no heads; a bar behind a backslash is no border."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    return [[cell.strip().replace("\0", "|") for cell in line.replace("\\|", "\0").split("|")[1:-1]] for line in lines]


def test_main_claims_of_every_paper() -> None:
    text = claims_markdown([table(), picture(), table("f2-softmax/table-1", paper="F2 <b>")])
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## HistAlign. Wan, Zhang, Bansal. EMNLP 2023.",
        "## F2 &lt;b>",
    ]
    head, *rows = rows_of(text)
    assert head == ["claim", "verdict", "table", "paper", "here"]
    main = [claim for claim in CLAIMS if claim.headline]
    assert len(rows) == 2 * len(main) + 1  # with the second head
    assert rows[1] == [
        "The memory alone is enough.", "✓ **supported**",
        "[histalign/table-1](papers/histalign.md#histaligntable-1), scale small", "+17",
        "+12.3 (+10.5 to +14.2, 3 seeds)",
    ]  # fmt: skip
    assert rows[2][1] == "– **not testable**: it takes people"


def test_several_comparisons_are_told_apart() -> None:
    first = rows_of(claims_markdown([table()]))[1]
    assert first[1] == "? **inconclusive (1 of 2)**"
    assert first[0] == "HistAlign puts both words on top more often. (section 6.1) Two | of &lt;three> models."
    assert first[3] == "HistAlign − TRIME, Full: Acc@2: +17<br>HistAlign − Softmax, Full: Acc@2: +13.5"
    assert first[4].endswith("HistAlign − Softmax, Full: Acc@2: +3 (one seed so far)")


def test_many_comparisons_are_counted_and_listed_beside_the_table() -> None:
    claim = CLAIMS[0].model_copy(update={"comparisons": [HELD] * 3 + [ONCE] * 2, "needed": 4})
    made = table(claims=[claim])
    (row,) = rows_of(claims_markdown([made]))[1:]
    assert row[1] == "? **inconclusive (3 of 5, 4 needed)**"
    assert row[3:] == ["5 comparisons", "3 supported, 2 inconclusive"]
    listed = tables_markdown([made])
    assert "## histalign/table-1\n" in listed
    assert (
        f"**{claim.text}** (section 6.1) ? inconclusive (3 of 5, 4 needed). Two \\| of &lt;three> models.\n\n"
        "| difference | paper | here | |"
    ) in listed
    assert listed.count("| HistAlign − TRIME, Full: Acc@2 | +17 | +12.3 (+10.5 to +14.2, 3 seeds) | supported |") == 3
    assert listed.count("| HistAlign − Softmax, Full: Acc@2 | +13.5 | +3 (one seed so far) | inconclusive |") == 2


def test_many_comparisons_without_numbers_are_not_listed() -> None:
    untested = HELD.model_copy(update={"outcome": "not testable", "difference": None})
    made = table(claims=[CLAIMS[0].model_copy(update={"outcome": "not testable", "comparisons": [untested] * 5})])
    (row,) = rows_of(claims_markdown([made]))[1:]
    assert row[3:] == ["–", "–"]
    assert "no number here" not in tables_markdown([made])


def test_without_a_main_claim_there_is_nothing() -> None:
    assert claims_markdown([picture()]) == ""
