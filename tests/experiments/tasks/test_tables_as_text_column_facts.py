"""Worked out by hand; what is published, from what PLOG's released code says."""

from __future__ import annotations

import pytest

from nextword.experiments.tasks.tables_as_text import complete, plain, published


def test_cells_get_capital_letters_and_nothing_else_is_changed():
    assert plain(["new york", "mcDONALD's", "", "1,000", "a  b"]).cells == (
        "New York",
        "Mcdonald's",
        "",
        "1,000",
        "A  B",
    )


@pytest.mark.parametrize(
    ("cells", "ranks", "totals"),
    [
        # 3 of 3, 1 of 3 and 2 of 3, from above and below
        (["5", "40", "7"], ((3, -1), (1, -3), (2, -2)), ("52", "17.33")),
        (["1,000 m", "50 m"], ((1, -2), (2, -1)), ("1050", "525")),
        (["12.5 %", "12.25 %"], ((1, -2), (2, -1)), ("24.75", "12.38")),
        # both sevens are the largest, both fives the smallest
        (["7", "5", "7", "5"], ((1, -3), (3, -1), (1, -3), (3, -1)), ("24", "6")),
        (["may 5 , 2004", "march 7 , 2004", "june 1 , 2003"], ((1, -3), (2, -2), (3, -1)), None),
        (["february 30 , 2004", "may 1 , 2004"], None, None),
        (["5", "", "7"], None, None),
        (["5", "none"], None, None),
        (["brian may (2)", "7"], ((2, -1), (1, -2)), ("9", "4.5")),
        (["may", "june"], None, None),
        (["ann", "bo"], None, None),
    ],
)
def test_complete(cells, ranks, totals):
    found = complete(cells)
    assert (found.ranks, found.totals) == (ranks, totals)
    assert found.cells == plain(cells).cells


@pytest.mark.parametrize(
    ("cells", "shown", "ranks", "totals"),
    [
        # numbers for pandas: sums, no ranks
        (["5", "40", "7"], ("5", "40", "7"), None, ("52", "17.333333333333332")),
        (["5", "", "7"], ("5.0", "nan", "7.0"), None, ("12.0", "6.0")),
        (["1.50", "2"], ("1.5", "2.0"), None, ("3.5", "1.75")),
        # text with a number in each cell: ranks, and n for n equal largest
        (["1,000", "50"], ("1,000", "50"), ((1, -2), (2, -1)), ("1050.0", "525.0")),
        (["7 m", "5 m", "7 m"], ("7 M", "5 M", "7 M"), ((2, -2), (3, -1), (2, -2)), ("19.0", "6.333333333333333")),
        # a cell without number: sums of the others
        (["5 m", "none", ""], ("5 M", "None", "nan"), None, ("5.0", "5.0")),
        (["5 m", "no"], ("5 M", "No"), None, ("5.0", "5.0")),
        (["true", "false"], ("True", "False"), None, None),
        (["ann", "bo"], ("Ann", "Bo"), None, None),
        # dates, March as January, so before February; day and year are one number (5 , 2004)
        (
            ["february 5 , 2004", "march 7 , 2004", "june 1 , 2004"],
            ("February 5 , 2004", "March 7 , 2004", "June 1 , 2004"),
            ((2, -2), (3, -1), (1, -3)),
            ("136012.0", "45337.333333333336"),
        ),
        # no such day, so numbers
        (["february 30", "may 1"], ("February 30", "May 1"), ((1, -2), (2, -1)), ("31.0", "15.5")),
        # one month makes dates of all: the cell without year comes last
        (["2004", "may"], ("2004", "May"), ((2, -1), (1, -2)), ("2004.0", "2004.0")),
    ],
)
def test_published(cells, shown, ranks, totals):
    found = published(cells)
    assert (found.cells, found.ranks, found.totals) == (shown, ranks, totals)
