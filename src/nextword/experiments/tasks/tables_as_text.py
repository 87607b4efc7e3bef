"""Tables as one line of text with markup, in PLOG's format."""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, Literal

from nextword.runtime.corpora.logicnlg import TableSentence

Order = Literal["row", "column"]
"""Order of the cells: row by row or column by column."""

_NAMES = ("table", "caption", "cell", "col_header", "row_idx", "max_rank", "min_rank", "sum_cell", "avg_cell")

MARKS = tuple(mark for name in _NAMES for mark in (f"<{name}>", f"</{name}>"))
"""The markup texts. Each becomes one token."""


class Linearisation:
    """Converts a table to text, but only the columns that a sentence is about.

    The caption comes first, then sum and average of each column, then the cells. Each cell has its column's name, its
    row (from 0), and its rank in the column from the top and from the bottom. ``precomputation`` may leave out sums,
    averages and ranks. They are computed only once for each column. White space is collapsed.

    Source: the released code of PLOG (Liu et al., 2022). Difference: the token of a markup text includes the space
    before it.

    Args:
        precomputation: Facts of the columns to compute: ``complete``, ``published`` or ``none``.
        order: Order of the cells: ``row`` (row by row) or ``column`` (column by column).

    Examples:
        >>> from nextword.runtime.corpora.logicnlg import CsvTable
        >>> table = CsvTable("t", ("city", "games"), (("athens", "2"), ("london", "3")))
        >>> sentence = TableSentence(table, "hosts", (1,), "London had three")
        >>> Linearisation("none", "row")(sentence)  # doctest: +NORMALIZE_WHITESPACE
        '<table> <caption> hosts </caption> <cell> 2 <col_header> games </col_header> <row_idx> 0 </row_idx> </cell>
         <cell> 3 <col_header> games </col_header> <row_idx> 1 </row_idx> </cell> </table>'
    """

    def __init__(self, precomputation: Precomputation, order: Order) -> None:
        facts: Callable[[Sequence[str]], ColumnFacts] = FACTS[precomputation]
        self._order = order
        self._facts = cache(lambda table, column: facts([row[column] for row in table.rows]))

    def __call__(self, one: TableSentence) -> str:
        """Return the columns that the sentence ``one`` is about, as text."""
        table = one.table
        facts = {column: self._facts(table, column) for column in one.columns}
        parts = ["<table>", _marked("caption", one.title)]
        for column in one.columns:
            if (totals := facts[column].totals) is not None:
                of_column = _marked("col_header", table.header[column])
                total, average = totals
                parts += [_marked("sum_cell", f"{total} {of_column}"), _marked("avg_cell", f"{average} {of_column}")]
        rows = range(len(table.rows))
        if self._order == "row":
            places = [(row, column) for row in rows for column in one.columns]
        else:
            places = [(row, column) for column in one.columns for row in rows]
        parts += [_cell(facts[column], table.header[column], row) for row, column in places]
        return " ".join(" ".join([*parts, "</table>"]).split())


def _marked(name: str, content: str) -> str:
    return f"<{name}> {content} </{name}>"


def _cell(facts: ColumnFacts, header: str, row: int) -> str:
    content = f"{facts.cells[row]} {_marked('col_header', header)} {_marked('row_idx', str(row))}"
    if facts.ranks is not None:
        above, below = facts.ranks[row]
        content += f" {_marked('max_rank', str(above))} {_marked('min_rank', str(below))}"
    return _marked("cell", content)


# -- The value of a cell: a number or a date.

_GROUP = r"(?:\s?[:,.]\s?\d+)"
_NUMBER = re.compile(rf"[-+]?\s?(?:\d*{_GROUP}+|\d+)\b|\d+(?=\s?(?:st|nd|rd|th))")
_RESULT = re.compile(r"(?<==\s)\d+")
_YEAR, _DAY = re.compile(r"\b(\d{4})\b"), re.compile(r"\b(\d\d?)\b")

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
MONTH_NAMES = {name: number for number, full in enumerate(MONTHS, 1) for name in (full, full[:3])} | {"sept": 9}
"""Numbers of the months by name and abbreviation."""

NO_YEAR = 2260
"""Year given to dates without a year, so that they come after all other dates."""


def numbers(cells: Sequence[str]) -> list[float | None]:
    """The first number of each cell. ``None`` for a cell without a number.

    Thousands separators, the colon of a time and white space inside a number are dropped. If any cell contains a result
    ("3 + 4 = 7"), only results are read, and cells without a result get ``None``. If any number has several points
    ("1.2.3"), the points of all numbers are dropped.

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
    """The date of each cell, or ``None`` if one of the dates does not exist. ``months`` is from ``month_pattern``.

    A missing day or month is 1, a missing year ``NO_YEAR``.

    >>> dates(["may 5 , 2004", "4 june 2004", "2004"], month_pattern(MONTH_NAMES))
    [datetime.date(2004, 5, 5), datetime.date(2004, 6, 4), datetime.date(2004, 1, 1)]
    """
    try:
        return [_date(cell, months.search(cell)) for cell in cells]
    except ValueError:
        return None


def month_pattern(names: Sequence[str] | dict[str, int]) -> re.Pattern[str]:
    """A pattern that finds any of ``names``, the names of months, as a whole word."""
    return re.compile(rf"\b(?:{'|'.join(names)})\b")


def _date(cell: str, month: re.Match[str] | None) -> date:
    year, day = _YEAR.search(cell), _DAY.search(cell)
    return date(
        NO_YEAR if year is None else int(year[1]),
        1 if month is None else MONTH_NAMES[month[0]],
        1 if day is None else int(day[1]),
    )


# -- Facts about a column that are computed before a model reads it: the rank of each cell, the sum and the average.

Precomputation = Literal["complete", "published", "none"]
"""Facts to compute: ranks, sums and averages of all suitable columns, those of PLOG's released code, or none."""


@dataclass(frozen=True)
class ColumnFacts:
    """The cells of a column, and facts computed from them: ranks, sum and average."""

    cells: tuple[str, ...]
    ranks: tuple[tuple[int, int], ...] | None = None
    """Rank of each cell from the top (1, 2, ...) and from the bottom (-1, -2, ...)."""
    totals: tuple[str, str] | None = None
    """Sum and average, as text."""


def plain(cells: Sequence[str]) -> ColumnFacts:
    """A column without computed facts: only its cells, with each word capitalised.

    >>> plain(["new york", "5"])
    ColumnFacts(cells=('New York', '5'), ranks=None, totals=None)
    """
    return ColumnFacts(_capitalised(cells))


def complete(cells: Sequence[str]) -> ColumnFacts:
    """Ranks, sum and average of a column in which every cell has a number. Other columns get no facts.

    If every cell also has the name of a month, the cells are ranked by date, and there is no sum or average. Equal
    values have equal ranks: in 5, 7, 7 both sevens have rank 1 from the top, and 5 has rank 3.

    Source: PLOG (Liu et al., 2022). Its released code differs, see ``published``.

    >>> complete(["1,000", "50"])
    ColumnFacts(cells=('1,000', '50'), ranks=((1, -2), (2, -1)), totals=('1050', '525'))
    """
    values = numbers(cells)
    known = [value for value in values if value is not None]
    if len(known) < len(cells):
        return plain(cells)
    if all(_MONTHS.search(cell) for cell in cells):
        days = dates(cells, _MONTHS)
        return plain(cells) if days is None else ColumnFacts(_capitalised(cells), _tied_ranks(days))
    totals = _short(sum(known)), _short(sum(known) / len(known))
    return ColumnFacts(_capitalised(cells), _tied_ranks(known), totals)


def published(cells: Sequence[str]) -> ColumnFacts:
    """The facts that PLOG's released code computes, including its peculiarities.

    - Cells are read by pandas. A missing cell becomes "nan", and 589 in a column of numbers with a missing cell
      "589.0".
    - Columns that pandas reads as numbers have no ranks; text columns with a number in each cell have ranks.
    - If one cell has a month, the column is a date column. The code does not know March, and treats it as January.
    - Text and date columns also have sum and average, over the cells with a number.
    - If the n largest values are equal, each of them has rank n from the top.

    Not reproduced: if all columns of a table are numbers and one has fractions, PLOG writes all cells with a point.

    Source: the released code of PLOG (Liu et al., 2022).

    >>> published(["5 m", "7 m", "7 m"])
    ColumnFacts(cells=('5 M', '7 M', '7 M'), ranks=((3, -1), (2, -2), (2, -2)), totals=('19.0', '6.333333333333333'))
    """
    import pandas  # type: ignore[import-untyped]

    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([["column"], *([cell] for cell in cells)])
    written.seek(0)
    column = pandas.read_csv(written)["column"]
    missing = column.isna()
    if column.dtype.kind == "b":
        return ColumnFacts(tuple(map(str, column)))
    if column.dtype.kind in "if":
        return ColumnFacts(tuple(map(str, column)), totals=_totals_of(column))
    texts = ["" if absent else cell for cell, absent in zip(column, missing, strict=True)]
    shown = ["nan" if absent else cell for cell, absent in zip(_capitalised(texts), missing, strict=True)]
    values = numbers(texts)
    known = [value for value in values if value is not None]
    days = dates(texts, _PUBLISHED_MONTHS) if any(map(_PUBLISHED_MONTHS.search, texts)) else None
    ranks = None
    if days is not None or len(known) == len(texts):
        found: list[Any] = list(known if days is None else days)
        ordered = sorted(found)
        smaller = [bisect_left(ordered, one) for one in found]
        ranks = tuple((len(found) - count, -1 - count) for count in smaller)
    totals = _totals_of(pandas.Series(values, dtype="float64")) if known else None
    return ColumnFacts(tuple(shown), ranks, totals)


FACTS: dict[Precomputation, Callable[[Sequence[str]], ColumnFacts]] = {
    "complete": complete,
    "published": published,
    "none": plain,
}
"""The function for each kind of facts."""

_MONTHS = month_pattern(MONTH_NAMES)
_PUBLISHED_MONTHS = month_pattern([name for name in MONTH_NAMES if name not in ("march", "sept")])


def _tied_ranks(values: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    ordered = sorted(values)
    return tuple((1 + len(ordered) - bisect_right(ordered, one), -1 - bisect_left(ordered, one)) for one in values)


def _short(value: float) -> str:
    """Format a number with at most two decimals.

    >>> _short(12.0), _short(10 / 3), _short(2.5)
    ('12', '3.33', '2.5')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _capitalised(cells: Sequence[str]) -> tuple[str, ...]:
    # each word with a capital letter, as in LogicNLG's sentences, because its tables have only small letters
    return tuple(" ".join(word.capitalize() for word in cell.split(" ")) for cell in cells)


def _totals_of(column: Any) -> tuple[str, str]:
    # with all digits that pandas gives
    return str(column.sum()), str(column.mean())
