"""The page of reproduced tables, with one table, or with several and a table of contents."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from nextword.results.records import write_atomically
from nextword.results.records.reproduced_table import (
    NO_SEED,
    JudgedClaim,
    JudgedComparison,
    Outcome,
    ReproducedCell,
    ReproducedColumn,
    ReproducedRow,
    ReproducedTable,
)
from nextword.results.report import formats, terminal
from nextword.results.report.table import ARROWS, GOALS, Cell
from nextword.results.report.template import style, template

# -- The numbers of a reproduced table as text: each row has the paper's numbers and ours, with the paper's decimals.


@dataclass(frozen=True)
class RowPair:
    """A row of a reproduced table, with the printed numbers and ours as text."""

    title: str
    note: str
    printed: tuple[str, ...]
    ours: tuple[Cell, ...]
    """Our cells. ``Cell.numbers`` has the values by seed; it is empty for a value that needs no training."""
    missing: str
    """Reason why the row has no number of ours, if the reason is the same for all cells."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of a reproduced table, as text."""

    columns: tuple[ReproducedColumn, ...]
    rows: tuple[RowPair, ...]
    seeds: int
    """The most common number of seeds among the cells."""

    @property
    def reasons(self) -> list[tuple[str, list[str]]]:
        """Reasons why cells have no number of ours, with the rows' titles; not for rows with ``RowPair.missing``."""
        rows: dict[str, list[str]] = {}
        for row in self.rows:
            for why in {} if row.missing else dict.fromkeys(cell.reason for cell in row.ours if cell.reason):
                rows.setdefault(why, []).append(row.title)
        return list(rows.items())

    @property
    def headings(self) -> list[tuple[str, int]]:
        """Headings over neighbouring columns, each with the number of its columns."""
        return formats.spans(column.group for column in self.columns)

    @property
    def has_ours(self) -> bool:
        """Whether any cell has a number of ours."""
        return any(not cell.reason for row in self.rows for cell in row.ours)


def numbers(table: ReproducedTable) -> Numbers:
    """Format all numbers of a table. Each column has as many decimals as the paper prints in it.

    In a column with neither ``unit`` nor ``better``, such as a list of settings, numbers have four digits.
    """
    decimals = [
        _decimals([row.cells[place] for row in table.rows]) if column.unit or column.better else None
        for place, column in enumerate(table.columns)
    ]
    rows = tuple(_row(row, decimals) for row in table.rows)
    counted = Counter(len(cell.numbers) for row in rows for cell in row.ours if cell.numbers)
    return Numbers(tuple(table.columns), rows, max(counted, key=lambda count: (counted[count], count), default=0))


def _row(row: ReproducedRow, decimals: Sequence[int | None]) -> RowPair:
    ours = tuple(_ours(cell, digits) for cell, digits in zip(row.cells, decimals, strict=True))
    reasons = {cell.reason for cell in ours}
    return RowPair(
        title=row.title,
        note=row.note or "",
        printed=tuple(_printed(cell, digits) for cell, digits in zip(row.cells, decimals, strict=True)),
        ours=ours,
        missing=reasons.pop() if len(reasons) == 1 else "",
    )


def _decimals(cells: Sequence[ReproducedCell]) -> int | None:
    """Maximum number of decimals of the printed numbers. None if there is no printed number.

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
    return formats.four_digits(value) if decimals is None else formats.value(value, "", decimals)


def _printed(cell: ReproducedCell, decimals: int | None) -> str:
    number = _shown(cell.printed, decimals)
    return number if cell.spread is None else f"{number} ± {_shown(cell.spread, _digits(cell.spread))}"


def _ours(cell: ReproducedCell, decimals: int | None) -> Cell:
    if cell.value is None:
        return Cell(reason=cell.missing or "it was not measured")
    interval = ""
    if cell.low is not None and cell.high is not None:
        interval = formats.interval(_shown(cell.low, decimals), _shown(cell.high, decimals))
    numbers = tuple(number for seed, number in cell.by_seed.items() if seed != NO_SEED)
    return Cell(_shown(cell.value, decimals), interval=interval, numbers=numbers)


SIGNS: dict[Outcome, str] = {
    "supported": "\N{CHECK MARK}",
    "not supported": "\N{BALLOT X}",
    "inconclusive": "?",
    "not testable": formats.NOTHING,
}
"""Signs before an outcome's name."""

# -- The page of reproduced tables.


@dataclass(frozen=True)
class Section:
    """Section of one table."""

    anchor: str
    table: ReproducedTable
    numbers: Numbers
    outcomes: tuple[tuple[str, int], ...]
    """Number of claims for each outcome that occurs."""


def write_reproduced_tables(tables: Sequence[ReproducedTable], path: str | os.PathLike[str], root: str = "") -> None:
    """Write tables of papers, with our numbers next to the printed ones, as one self-contained HTML page.

    Args:
        tables: Tables in the order of the page. Tables of the same paper must follow each other.
        path: The file to write.
        root: Relative path from the page's folder to the folder of all tables, for links. For example "../".
    """
    write_atomically(path, render_reproduction(tables, root))


def render_reproduction(tables: Sequence[ReproducedTable], root: str = "") -> str:
    """Render the page. If there are several tables, it has a table of contents."""
    sections = []
    for table in tables:
        anchor = re.sub(r"[^A-Za-z0-9]+", "-", f"{table.name}-{table.scale}")
        sections.append(Section(anchor, table, numbers(table), outcomes(table.claims)))
    papers = [(paper, list(members)) for paper, members in groupby(sections, key=lambda one: one.table.paper)]
    return template("reproduction.html.j2").render(
        style=style(),
        papers=papers,
        sections=sections,
        title=f"{len(tables)} tables, the papers' numbers beside ours"
        if len(tables) != 1
        else f"{tables[0].name}: {tables[0].title}",
        root=root,
        signs=SIGNS,
        arrows=ARROWS,
        goals=GOALS,
        nothing=formats.NOTHING,
        seeds=formats.seeds,
        difference=difference,
        verdict=verdict,
    )


def outcomes(claims: Sequence[JudgedClaim]) -> tuple[tuple[str, int], ...]:
    """Return each outcome of ``claims`` with its number of claims, in the order of ``SIGNS``."""
    counted = Counter(claim.outcome for claim in claims)
    return tuple((outcome, counted[outcome]) for outcome in SIGNS if counted[outcome])


def verdict(claim: JudgedClaim) -> str:
    """The outcome of ``claim`` with its sign. With several comparisons, also the number of supported ones.

    >>> one = JudgedComparison(first="a", second="b", column="c", outcome="supported")
    >>> other = one.model_copy(update={"outcome": "inconclusive"})
    >>> verdict(JudgedClaim(text="t", outcome="inconclusive", reason="r", comparisons=[one, one, other]))
    '? inconclusive (2 of 3)'
    >>> verdict(JudgedClaim(text="t", outcome="supported", reason="r", comparisons=[one, one, other], needed=2))
    '✓ supported (2 of 3, 2 needed)'
    """
    said = f"{SIGNS[claim.outcome]} {claim.outcome}"
    tested = [one.outcome for one in claim.comparisons if one.outcome != "not testable"]
    if not tested or len(claim.comparisons) == 1:
        return said
    count = [f"{tested.count('supported')} of {len(tested)}"]
    count += [] if claim.needed is None else [f"{claim.needed} needed"]
    without = len(claim.comparisons) - len(tested)
    count += [f"{without} without numbers"] if without else []
    return f"{said} ({', '.join(count)})"


def difference(one: JudgedComparison) -> str:
    """Format the difference of a comparison with its interval and number of seeds.

    >>> difference(JudgedComparison(first="a", second="b", column="c", outcome="supported", difference=1.5, low=1,
    ...     high=2, seeds=3))
    '+1.5 (+1 to +2, 3 seeds)'
    """
    if one.difference is None:
        return "no number here"
    if one.low is None or one.high is None:
        return f"{one.difference:+.3g} ({formats.seeds(one.seeds)} so far)" if one.seeds else f"{one.difference:+.3g}"
    return f"{one.difference:+.3g} ({one.low:+.3g} to {one.high:+.3g}, {formats.seeds(one.seeds)})"


# -- A reproduced table in the terminal.

WIDTH = 54
"""Maximum width in characters, without row names. Wider tables are split."""


def reproduced_table(table: ReproducedTable) -> RenderableType:
    """Tables for the terminal: our numbers, below each the paper's in brackets, and then the outcome of each claim."""
    found = numbers(table)
    heading = Text(f"{table.name}: {table.title} (scale {table.scale})", style="bold")
    parts = [_part(found, first, last) for first, last in _cuts(found)] if found.has_ours else []
    shown = [Text(f"shown in {table.shown_in}", style="dim")] if table.shown_in else []
    told = Text("\n".join([*_told(found), *table.differs]), style="dim")
    return Group(heading, *parts, *shown, *_claims(table), told)


def _cuts(found: Numbers) -> Iterator[tuple[int, int]]:
    """Ranges of columns that fit into one table."""
    first = used = 0
    for place, column in enumerate(found.columns):
        cells = [row.ours[place] for row in found.rows]
        texts = [*column.title.split(), column.group.partition(" ")[0], *(row.printed[place] for row in found.rows)]
        texts += [text for cell in cells for text in (cell.text, cell.interval)]
        width = 1 + max(map(len, texts))
        if used + width > WIDTH and place > first:
            yield first, place
            first, used = place, 0
        used += width
    yield first, len(found.columns)


def _part(found: Numbers, first: int, last: int) -> Table:
    table = terminal.framed(None, [Column("", overflow="fold", max_width=24)], padding=(0, 0, 0, 1))
    for column in found.columns[first:last]:
        arrow = ARROWS[column.better] if column.better else ""
        unit = f"({column.unit})" if column.unit else ""
        heading = "\n".join(filter(None, [*column.group.split(), *column.title.split(), unit]))
        table.add_column(Text(f"{heading}{arrow}"), justify="right")
    for row in found.rows:
        both = zip(row.ours[first:last], row.printed[first:last], strict=True)
        table.add_row(Text(row.title), *(_ours_above(ours, printed, found.seeds) for ours, printed in both))
    return table


def _ours_above(ours: Cell, printed: str, usual: int) -> Text:
    seeds = len(ours.numbers)
    lines = [ours.interval, formats.seeds(seeds) if seeds not in (0, usual) else ""]
    return Text.assemble((ours.text, "bold"), *(f"\n{line}" for line in lines if line), "\n", (f"({printed})", "dim"))


def _told(found: Numbers) -> Iterator[str]:
    if found.has_ours:
        usual = f", mean over {formats.seeds(found.seeds)}" if found.seeds else ""
        yield f"Ours with its 95 % interval{usual}; in brackets the paper's."
    rows: dict[str, list[str]] = {}
    for row in found.rows:
        if row.missing:
            rows.setdefault(row.missing, []).append(row.title)
    for why, titles in [*rows.items(), *found.reasons]:
        yield f"without a number here, {why}: {'; '.join(titles)}"


def _claims(table: ReproducedTable) -> Iterator[Text]:
    if table.claims:
        counted = ", ".join(f"{count} {outcome}" for outcome, count in outcomes(table.claims))
        yield Text(f"Claims: {counted}", style="bold")
    for claim in table.claims:
        yield Text.assemble((f"{verdict(claim)}: ", "bold"), claim.text)
        yield Text(f"  {claim.reason}", style="dim")
