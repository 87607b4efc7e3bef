"""Reproduced tables as Markdown. Each cell has our number with its interval, and below it the paper's number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from nextword.results.records.reproduced_table import JudgedClaim, JudgedComparison, ReproducedTable
from nextword.results.report import formats
from nextword.results.report.reproduction_page import (
    SIGNS,
    Numbers,
    difference,
    numbers,
    verdict,
)
from nextword.results.report.table import Cell

FEW = 4
"""Maximum number of comparisons per claim that docs/records/claims.md lists. For a claim with more comparisons, it
gives only the number of each outcome."""


def tables_markdown(tables: Sequence[ReproducedTable]) -> str:
    """Write one section for each table that has claims or numbers of ours.

    A section says how the experiments were run. It has our numbers with the paper's, reasons for missing numbers, and
    the outcome of each claim.
    """
    return "\n".join(_section(table) for table in tables if table.claims or numbers(table).has_ours)


def anchor(table: ReproducedTable) -> str:
    """Anchor of the section of ``table`` in ``tables_markdown``."""
    return _title(table).replace("/", "").replace(",", "").replace(" ", "-")


def _title(table: ReproducedTable) -> str:
    return table.name if table.scale == "small" else f"{table.name}, scale {table.scale}"


def _section(table: ReproducedTable) -> str:
    found = numbers(table)
    differs = "\n".join(f"- {plain(line)}" for line in table.differs)
    parts = [
        f"## {_title(table)}",
        f"{plain(table.title)} ({table.place}; scale {table.scale}). {_how(table) if found.has_ours else ''}".strip(),
        *([_numbers(found)] if found.has_ours else []),
        *(f"No number here: {plain(why)} ({plain('; '.join(rows))})." for why, rows in _reasons(found).items()),
        *(f"{plain(row.title)}: {plain(row.note)}" for row in table.rows if row.note and found.has_ours),
        *([plain(table.note)] if table.note else []),
        *([f"What differs at scale {table.scale}:", differs] if differs else []),
        *map(_claim, table.claims),
    ]
    return "\n\n".join(parts) + "\n"


def _numbers(found: Numbers) -> str:
    heads = [f"{column.group}: {column.title}" if column.group else column.title for column in found.columns]
    lines = [f"| | {' | '.join(map(plain, heads))} |", "| --- |" + " --- |" * len(heads)]
    for row in found.rows:
        cells = [_cell(ours, printed) for ours, printed in zip(row.ours, row.printed, strict=True)]
        lines.append(f"| {plain(row.title)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _reasons(found: Numbers) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for why, titles in [*((row.missing, [row.title]) for row in found.rows if row.missing), *found.reasons]:
        reasons.setdefault(why, []).extend(titles)
    return reasons


def _claim(claim: JudgedClaim) -> str:
    place = f" ({plain(claim.place)})" if claim.place else ""
    note = f" {plain(claim.note)}" if claim.note else ""
    head = f"**{plain(claim.text)}**{place} {verdict(claim)}"
    if claim.outcome == "not testable":
        return f"{head}: {plain(claim.reason)}.{note}"
    rows = [
        f"| {plain(compared(one))} | {printed(one)} | {difference(one)} | {one.outcome} |" for one in claim.comparisons
    ]
    columns = ["| difference | paper | here | |", "| --- | --- | --- | --- |"]
    return "\n".join([f"{head}{'.' if note else ''}{note}", "", *columns, *rows])


def compared(one: JudgedComparison) -> str:
    """The comparison in words, such as "ROW − OTHER ROW, COLUMN"."""
    return f"{one.first} − {one.second}, {one.column}"


def printed(one: JudgedComparison) -> str:
    """The difference of the paper's numbers, formatted."""
    return formats.NOTHING if one.printed is None else f"{one.printed:+.3g}"


def _cell(ours: Cell, printed: str) -> str:
    few = f", {formats.seeds(1)}" if len(ours.numbers) == 1 else ""
    interval = f" <sub>({ours.interval}{few})</sub>" if ours.interval else f" <sub>({few[2:]})</sub>" if few else ""
    return f"**{plain(ours.text)}**{interval}<br>{plain(printed)}"


def _how(table: ReproducedTable) -> str:
    ran = [
        f"`{one.recipe}`, {formats.seeds(len(one.seeds))}"
        + (f", {one.minutes + (one.start_minutes or 0):.0f} minutes" if one.minutes is not None else "")
        for one in table.experiments
    ]
    return f"In bold ours ({'; '.join(ran)}), below it the paper's." if ran else "In bold ours, below it the paper's."


def plain(text: str) -> str:
    """Escape text for Markdown, including tables."""
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return " ".join(escaped.split())


# -- The papers' main claims with their outcomes, as Markdown, for docs/records/claims.md.


def claims_markdown(tables: Sequence[ReproducedTable], folder: str = "papers") -> str:
    """Write one table per paper, with the columns main claim, outcome, table, the paper's difference, and ours.

    If a claim has more than ``FEW`` comparisons, the number of comparisons with each outcome is given instead of
    differences. The pages of ``tables_markdown`` list each comparison.

    Args:
        tables: The tables. Tables of the same paper must follow each other.
        folder: Folder of the pages of ``tables_markdown``, one per paper.
    """
    parts = []
    for paper, members in groupby(tables, key=lambda table: table.paper):
        rows = [_row(table, claim, folder) for table in members for claim in table.claims if claim.headline]
        if rows:
            head = ["| claim | verdict | table | paper | here |", "| --- | --- | --- | --- | --- |"]
            parts.append("\n".join([f"## {plain(paper)}", "", *head, *rows]))
    return "\n\n".join(parts) + "\n" if parts else ""


def _row(table: ReproducedTable, claim: JudgedClaim, folder: str) -> str:
    text = " ".join([claim.text, *([f"({claim.place})"] if claim.place else []), *([claim.note] if claim.note else [])])
    sign, _, judged = verdict(claim).partition(" ")
    reason = f": {plain(claim.reason)}" if claim.outcome == "not testable" else ""
    paper, _, _ = table.name.partition("/")
    name = f"[{table.name}]({folder}/{paper}.md#{anchor(table)}), scale {table.scale}"
    return f"| {' | '.join([plain(text), f'{sign} **{judged}**{reason}', name, *_compared(claim)])} |"


def _compared(claim: JudgedClaim) -> tuple[str, str]:
    if len(claim.comparisons) > FEW and claim.outcome == "not testable":
        return formats.NOTHING, formats.NOTHING
    if len(claim.comparisons) > FEW:
        counted = Counter(one.outcome for one in claim.comparisons)
        return (
            f"{len(claim.comparisons)} comparisons",
            ", ".join(f"{counted[outcome]} {outcome}" for outcome in SIGNS if counted[outcome]),
        )
    several = len(claim.comparisons) > 1
    before = [f"{compared(one)}: " if several else "" for one in claim.comparisons]
    both = [[printed(one) for one in claim.comparisons], [difference(one) for one in claim.comparisons]]
    theirs, ours = (
        "<br>".join(plain(a + b) for a, b in zip(before, column, strict=True)) or formats.NOTHING for column in both
    )
    return theirs, ours
