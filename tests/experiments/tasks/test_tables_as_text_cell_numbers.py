from __future__ import annotations

from datetime import date

import pytest

from nextword.experiments.tasks.tables_as_text import MONTH_NAMES, dates, month_pattern, numbers


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("589", 589),
        ("1,234,567", 1_234_567),
        ("1 , 234", 1234),
        ("-3.5", -3.5),
        ("- 3", -3),
        ("+ 12", 12),
        (".5", 0.5),
        ("12 %", 12),
        ("12.5%", 12.5),
        ("10:45", 1045),
        ("3rd", 3),
        ("21 st", 21),
        ("$1.5m", 1),
        ("$7m", None),
        ("w 126 - 113 (ot)", 126),
        ("carmelo anthony (42)", 42),
        ("u21", 21),
        ("a1b2c", None),
        ("none", None),
        ("", None),
        ("-", None),
    ],
)
def test_number_of_a_cell(cell, value):
    assert numbers([cell]) == [value]


def test_results_are_the_numbers_of_a_column_that_has_one():
    assert numbers(["3 + 4 = 7", "5", "1 = 1"]) == [7, None, 1]


def test_points_are_dropped_in_a_column_with_several_in_a_number():
    assert numbers(["1.2.3", "1.5", "none"]) == [123, 15, None]


@pytest.mark.parametrize(
    ("cell", "day"),
    [
        ("september 30 , 1984", date(1984, 9, 30)),
        ("30 sep 1984", date(1984, 9, 30)),
        ("sept 3", date(2260, 9, 3)),
        ("march 1984", date(1984, 3, 1)),
        ("1984", date(1984, 1, 1)),
        ("mayor", date(2260, 1, 1)),
    ],
)
def test_date_of_a_cell(cell, day):
    assert dates([cell], month_pattern(MONTH_NAMES)) == [day]


def test_a_day_that_no_calendar_has_makes_the_column_no_dates():
    assert dates(["may 1 , 2004", "february 30 , 2004"], month_pattern(MONTH_NAMES)) is None
