"""Reproduced tables as Markdown: in every cell our number with its interval, and below it the paper's."""

from __future__ import annotations

from collections.abc import Sequence

from nextword.records.reproduced_table import JudgedClaim, JudgedComparison, ReproducedTable
from nextword.report.parts import formats
from nextword.report.reproduction.printed_and_ours import OurCell, numbers, seeds_in_words
from nextword.report.reproduction.reproduction_page import SIGNS, difference

FEW = 4
"""A claim with more comparisons has a table of its own."""


def tables_markdown(tables: Sequence[ReproducedTable]) -> str:
    """A section for each table that has numbers of ours: how it was run, the numbers, and why some are missing."""
    return "\n".join(_section(table) for table in tables if numbers(table).has_ours)


def _section(table: ReproducedTable) -> str:
    found = numbers(table)
    heads = [f"{column.group}: {column.title}" if column.group else column.title for column in found.columns]
    lines = [f"| | {' | '.join(map(plain, heads))} |", "| --- |" + " --- |" * len(heads)]
    for row in found.rows:
        cells = [_cell(ours, printed) for ours, printed in zip(row.ours, row.printed, strict=True)]
        lines.append(f"| {plain(row.title)} | {' | '.join(cells)} |")
    reasons: dict[str, list[str]] = {}
    for why, titles in [*((row.missing, [row.title]) for row in found.rows if row.missing), *found.reasons]:
        reasons.setdefault(why, []).extend(titles)
    parts = [
        f"## {table.name}",
        f"{plain(table.title)} ({table.place}; scale {table.scale}). {_how(table)}",
        "\n".join(lines),
        *(f"No number here: {plain(why)} ({plain('; '.join(rows))})." for why, rows in reasons.items()),
        *([plain(table.note)] if table.note else []),
        *map(
            _comparisons, (one for one in table.claims if len(one.comparisons) > FEW and one.outcome != "not testable")
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _comparisons(claim: JudgedClaim) -> str:
    """Every difference that a claim speaks of."""
    rows = [
        f"| {plain(compared(one))} | {printed(one)} | {difference(one)} | {one.outcome} |" for one in claim.comparisons
    ]
    return "\n".join(
        [
            f"**{plain(claim.text)}** {SIGNS[claim.outcome]} {claim.outcome}",
            "",
            "| difference | paper | here | |",
            "| --- | --- | --- | --- |",
            *rows,
        ]
    )


def compared(one: JudgedComparison) -> str:
    """The cells whose difference it is."""
    return f"{one.first} − {one.second}, {one.column}"


def printed(one: JudgedComparison) -> str:
    """The difference of the paper's numbers."""
    return formats.NOTHING if one.printed is None else f"{one.printed:+.3g}"


def _cell(ours: OurCell, printed: str) -> str:
    few = f", {seeds_in_words(1)}" if ours.seeds == 1 else ""
    interval = f" <sub>({ours.interval}{few})</sub>" if ours.interval else f" <sub>({few[2:]})</sub>" if few else ""
    return f"**{plain(ours.text)}**{interval}<br>{plain(printed)}"


def _how(table: ReproducedTable) -> str:
    ran = [
        f"`{one.recipe}`, {seeds_in_words(len(one.seeds))}"
        + (f", {one.minutes + (one.start_minutes or 0):.0f} minutes" if one.minutes is not None else "")
        for one in table.experiments
    ]
    return f"In bold ours ({'; '.join(ran)}), below it the paper's." if ran else "In bold ours, below it the paper's."


def plain(text: str) -> str:
    """Text that Markdown shows as it stands, in a table too."""
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return " ".join(escaped.split())
