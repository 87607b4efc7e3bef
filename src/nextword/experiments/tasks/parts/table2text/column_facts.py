"""What is computed of a column before a model reads it: the rank of each cell, the sum and the average."""

from __future__ import annotations

import csv
import io
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nextword.experiments.tasks.parts.table2text.cell_numbers import MONTH_NAMES, dates, month_pattern, numbers

Precomputation = Literal["complete", "published", "none"]
"""What is computed: ranks, sums and averages where they make sense, what PLOG's released code computes, or nothing."""


@dataclass(frozen=True)
class ColumnFacts:
    """A column as a model reads it.

    Attributes:
        cells: The cells.
        ranks: For each cell its rank from above (1, 2, ...) and from below (-1, -2, ...); ``None``: there are none.
        totals: Sum and average as text; ``None``: there are none.
    """

    cells: tuple[str, ...]
    ranks: tuple[tuple[int, int], ...] | None = None
    totals: tuple[str, str] | None = None


def plain(cells: Sequence[str]) -> ColumnFacts:
    """Nothing but the cells.

    >>> plain(["new york", "5"])
    ColumnFacts(cells=('New York', '5'), ranks=None, totals=None)
    """
    return ColumnFacts(_capitalised(cells))


def complete(cells: Sequence[str]) -> ColumnFacts:
    """Ranks of a column in which each cell has a number, or each a date; sum and average of one of numbers.

    Equal values have equal ranks: of 5, 7, 7 both sevens are 1 from above, and 5 is 3.

    Source: PLOG (Liu et al., 2022). Differs from its released code, which is ``published``.

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
    """What the released code of PLOG makes of a column, oddities included.

    - Cells are what pandas reads: with a missing cell, 589 becomes "589.0", and the missing one "nan".
    - A column that pandas takes for numbers has no ranks; one of text with a number in each cell has.
    - One month in a column makes it one of dates; March is not known and counts as January.
    - Of text, sum and average are of the cells that have a number, and of columns of dates as well.
    - Of n equal largest values, each is n from above.

    Not followed: where all columns of a table are numbers and one has fractions, it writes all cells with a point.

    Source: the released code of PLOG (Liu et al., 2022).

    >>> published(["5 m", "7 m", "7 m"])
    ColumnFacts(cells=('5 M', '7 M', '7 M'), ranks=((3, -1), (2, -2), (2, -2)), totals=('19.0', '6.333333333333333'))
    """
    column = _read_by_pandas(cells)
    missing = column.isna()
    if column.dtype.kind == "b":
        return ColumnFacts(tuple(map(str, column)))
    if column.dtype.kind in "if":
        return ColumnFacts(tuple(map(str, column)), totals=_totals(column))
    texts = ["" if absent else cell for cell, absent in zip(column, missing, strict=True)]
    shown = ["nan" if absent else cell for cell, absent in zip(_capitalised(texts), missing, strict=True)]
    values = numbers(texts)
    known = [value for value in values if value is not None]
    days = dates(texts, _PUBLISHED_MONTHS) if any(map(_PUBLISHED_MONTHS.search, texts)) else None
    ranks = None
    if days is not None or len(known) == len(texts):
        ranks = _published_ranks(known if days is None else days)
    return ColumnFacts(tuple(shown), ranks, _totals(_series(values)) if known else None)


FACTS: dict[Precomputation, Callable[[Sequence[str]], ColumnFacts]] = {
    "complete": complete,
    "published": published,
    "none": plain,
}
"""What is made of a column."""

_MONTHS = month_pattern(MONTH_NAMES)
_PUBLISHED_MONTHS = month_pattern([name for name in MONTH_NAMES if name not in ("march", "sept")])


def _tied_ranks(values: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    ordered = sorted(values)
    return tuple((1 + len(ordered) - bisect_right(ordered, one), -1 - bisect_left(ordered, one)) for one in values)


def _published_ranks(values: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    ordered = sorted(values)
    smaller = [bisect_left(ordered, one) for one in values]
    return tuple((len(values) - count, -1 - count) for count in smaller)


def _short(value: float) -> str:
    """At most two decimals.

    >>> _short(12.0), _short(10 / 3), _short(2.5)
    ('12', '3.33', '2.5')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _capitalised(cells: Sequence[str]) -> tuple[str, ...]:
    """Each word with a capital letter, as names have it in LogicNLG's sentences; its tables are in small letters."""
    return tuple(" ".join(word.capitalize() for word in cell.split(" ")) for cell in cells)


def _totals(column: Any) -> tuple[str, str]:
    """Sum and average of a series of pandas, to the last digit as pandas has them."""
    return str(column.sum()), str(column.mean())


def _series(values: Sequence[float | None]) -> Any:
    import pandas  # type: ignore[import-untyped]

    return pandas.Series(values, dtype="float64")


def _read_by_pandas(cells: Sequence[str]) -> Any:
    import pandas

    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([["column"], *([cell] for cell in cells)])
    written.seek(0)
    return pandas.read_csv(written)["column"]
