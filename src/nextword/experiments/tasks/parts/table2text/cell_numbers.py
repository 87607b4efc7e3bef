"""What a cell is worth: its number, or its date."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

_GROUP = r"(?:\s?[:,.]\s?\d+)"
_NUMBER = re.compile(rf"[-+]?\s?(?:\d*{_GROUP}+|\d+)\b|\d+(?=\s?(?:st|nd|rd|th))")
_RESULT = re.compile(r"(?<==\s)\d+")
_YEAR, _DAY = re.compile(r"\b(\d{4})\b"), re.compile(r"\b(\d\d?)\b")

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
MONTH_NAMES = {name: number for number, full in enumerate(MONTHS, 1) for name in (full, full[:3])} | {"sept": 9}
"""The months by name and abbreviation."""

NO_YEAR = 2260
"""Stands for the year of a date without one, so that it comes after all others."""


def numbers(cells: Sequence[str]) -> list[float | None]:
    """The first number of each cell; ``None`` where there is none.

    Thousands separators, the colon of a time and white space inside a number are dropped. Where a cell has a result
    ("3 + 4 = 7"), results are the numbers of its column. Where the number of one cell has several points ("1.2.3"),
    points are dropped in the whole column.

    Source: PLOG (Liu et al., 2022), its released code.

    >>> numbers(["1,000 m", "- 5", "12 %", "3rd", "w 126 - 113", "none"])
    [1000.0, -5.0, 12.0, 3.0, 126.0, None]
    """
    results = [_RESULT.search(cell) for cell in cells]
    matches = results if any(results) else [_NUMBER.search(cell) for cell in cells]
    digits = [None if match is None else re.sub(r"[\s:,]", "", match[0]) for match in matches]
    if any(text is not None and text.count(".") > 1 for text in digits):
        digits = [None if text is None else text.replace(".", "") for text in digits]
    return [None if text is None else float(text) for text in digits]


def dates(cells: Sequence[str], months: re.Pattern[str]) -> list[date] | None:
    """The date of each cell, of which day, month and year may be missing; ``None`` where one is no date of a calendar.

    Args:
        cells: Those of a column.
        months: Finds the name of a month.

    >>> dates(["may 5 , 2004", "4 june 2004", "2004"], month_pattern(MONTH_NAMES))
    [datetime.date(2004, 5, 5), datetime.date(2004, 6, 4), datetime.date(2004, 1, 1)]
    """
    try:
        return [_date(cell, months.search(cell)) for cell in cells]
    except ValueError:
        return None


def month_pattern(names: Sequence[str] | dict[str, int]) -> re.Pattern[str]:
    """Finds one of the names as a word."""
    return re.compile(rf"\b(?:{'|'.join(names)})\b")


def _date(cell: str, month: re.Match[str] | None) -> date:
    year, day = _YEAR.search(cell), _DAY.search(cell)
    return date(
        NO_YEAR if year is None else int(year[1]),
        1 if month is None else MONTH_NAMES[month[0]],
        1 if day is None else int(day[1]),
    )
