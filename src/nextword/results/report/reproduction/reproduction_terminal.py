"""A reproduced table in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nextword.results.records.reproduced_table import ReproducedTable
from nextword.results.report.evaluation.evaluation_table import ARROWS
from nextword.results.report.reproduction.printed_and_ours import Numbers, OurCell, numbers, seeds_in_words
from nextword.results.report.reproduction.reproduction_page import outcomes, verdict

WIDTH = 54
"""Characters beside the names of the rows; what is wider goes into a table below."""


def reproduced_table(table: ReproducedTable) -> RenderableType:
    """The paper's numbers in brackets below ours, and what became of each claim."""
    found = numbers(table)
    heading = Text(f"{table.name}: {table.title} (scale {table.scale})", style="bold")
    parts = [_part(found, first, last) for first, last in _cuts(found)] if found.has_ours else []
    shown = [Text(f"shown in {table.shown_in}", style="dim")] if table.shown_in else []
    told = Text("\n".join([*_told(found), *table.differs]), style="dim")
    return Group(heading, *parts, *shown, *_claims(table), told)


def _cuts(found: Numbers) -> Iterator[tuple[int, int]]:
    """Columns that fit beside each other: the first, and the one behind the last."""
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
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False, show_lines=False)
    table.add_column("", overflow="fold", max_width=24)
    for column in found.columns[first:last]:
        arrow = ARROWS[column.better] if column.better else ""
        unit = f"({column.unit})" if column.unit else ""
        heading = "\n".join(filter(None, [*column.group.split(), *column.title.split(), unit]))
        table.add_column(Text(f"{heading}{arrow}"), justify="right")
    for row in found.rows:
        ours = [_ours(cell, found.seeds) for cell in row.ours[first:last]]
        cells = [
            Text.assemble(one, "\n", (f"({printed})", "dim"))
            for one, printed in zip(ours, row.printed[first:last], strict=True)
        ]
        table.add_row(Text(row.title), *cells)
    return table


def _ours(cell: OurCell, usual: int) -> Text:
    few = f"\n{seeds_in_words(cell.seeds)}" if cell.seeds not in (0, usual) else ""
    return Text.assemble((cell.text, "bold"), f"\n{cell.interval}" if cell.interval else "", few)


def _told(found: Numbers) -> Iterator[str]:
    """What a reader must know of the numbers."""
    if found.has_ours:
        usual = f", mean over {seeds_in_words(found.seeds)}" if found.seeds else ""
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
