"""The numbers of a reproduced table as text: in each row the paper's and ours, in the paper's precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

from nextword.results.records.reproduced_table import ReproducedCell, ReproducedColumn, ReproducedRow, ReproducedTable
from nextword.results.report.parts import formats

NO_SEED = "-"
"""Seed of a number that no training gave."""


@dataclass(frozen=True)
class OurCell:
    """Our number for a cell."""

    text: str
    interval: str = ""
    """Its 95 % interval."""
    seeds: int = 0
    """Trainings that it is the mean of; 0: no training gave it."""
    missing: str = ""
    """Why there is no number."""


@dataclass(frozen=True)
class RowPair:
    """A row of the table."""

    title: str
    note: str
    printed: tuple[str, ...]
    """The paper's numbers."""
    ours: tuple[OurCell, ...]
    missing: str
    """Why no cell of the row has a number of ours, where the reason is the same for all."""


@dataclass(frozen=True)
class Numbers:
    """The table."""

    columns: tuple[ReproducedColumn, ...]
    rows: tuple[RowPair, ...]
    seeds: int
    """How many trainings most of our numbers are the mean of."""

    @property
    def reasons(self) -> list[tuple[str, list[str]]]:
        """Why single cells lack a number of ours: each reason with the rows."""
        rows: dict[str, list[str]] = {}
        for row in self.rows:
            for why in {} if row.missing else dict.fromkeys(cell.missing for cell in row.ours if cell.missing):
                rows.setdefault(why, []).append(row.title)
        return list(rows.items())

    @property
    def headings(self) -> list[tuple[str, int]]:
        """Headings over neighbouring columns, with the number of columns each spans."""
        return [(name, len(list(members))) for name, members in groupby(column.group for column in self.columns)]

    @property
    def has_ours(self) -> bool:
        """Whether any cell has a number of ours."""
        return any(not cell.missing for row in self.rows for cell in row.ours)


def numbers(table: ReproducedTable) -> Numbers:
    """All numbers of a table, with as many decimals as the paper prints in a column.

    In a column without a unit, where every row is of another kind, as in a list of settings, each has four digits, or
    more where it is larger.
    """
    decimals = [
        _decimals([row.cells[place] for row in table.rows]) if column.unit or column.better else None
        for place, column in enumerate(table.columns)
    ]
    rows = tuple(_row(row, decimals) for row in table.rows)
    counted = Counter(cell.seeds for row in rows for cell in row.ours if cell.seeds)
    return Numbers(tuple(table.columns), rows, max(counted, key=lambda count: (counted[count], count), default=0))


def _row(row: ReproducedRow, decimals: Sequence[int | None]) -> RowPair:
    ours = tuple(_ours(cell, digits) for cell, digits in zip(row.cells, decimals, strict=True))
    reasons = {cell.missing for cell in ours}
    return RowPair(
        title=row.title,
        note=row.note or "",
        printed=tuple(_printed(cell, digits) for cell, digits in zip(row.cells, decimals, strict=True)),
        ours=ours,
        missing=reasons.pop() if len(reasons) == 1 else "",
    )


def _decimals(cells: Sequence[ReproducedCell]) -> int | None:
    """Digits after the point of the printed number that has most of them; None where none is printed.

    >>> _decimals([ReproducedCell(printed=0.71), ReproducedCell(printed=3.0), ReproducedCell(printed="4-3")])
    2
    """
    found = [cell.printed for cell in cells if isinstance(cell.printed, float)]
    return max((_digits(number) for number in found), default=None)


def _digits(number: float) -> int:
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _shown(value: float | str | None, decimals: int | None) -> str:
    if value is None:
        return formats.NOTHING
    if isinstance(value, str):
        return value
    return _four_digits(value) if decimals is None else formats.value(value, "", decimals)


def _four_digits(number: float) -> str:
    """A number with four digits, or all before the point.

    >>> _four_digits(28475.0), _four_digits(1e-05), _four_digits(0.25), _four_digits(8.0)
    ('28475', '0.00001', '0.25', '8')
    """
    return f"{number:.0f}" if abs(number) >= 1000 else f"{Decimal(f'{number:z.4g}'):f}"


def _printed(cell: ReproducedCell, decimals: int | None) -> str:
    number = _shown(cell.printed, decimals)
    return number if cell.spread is None else f"{number} ± {_shown(cell.spread, _digits(cell.spread))}"


def _ours(cell: ReproducedCell, decimals: int | None) -> OurCell:
    if cell.value is None:
        return OurCell(formats.NOTHING, missing=cell.missing or "it was not measured")
    interval = ""
    if cell.low is not None and cell.high is not None:
        interval = formats.interval(_shown(cell.low, decimals), _shown(cell.high, decimals))
    return OurCell(_shown(cell.value, decimals), interval, sum(seed != NO_SEED for seed in cell.by_seed))


def seeds_in_words(count: int) -> str:
    """How many trainings a number is the mean of.

    >>> seeds_in_words(1), seeds_in_words(3)
    ('one seed', '3 seeds')
    """
    return "one seed" if count == 1 else f"{count} seeds"
