"""The papers' main claims with what became of them, as Markdown: docs/claims.md is made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from nextword.results.records.reproduced_table import JudgedClaim, ReproducedTable
from nextword.results.report.parts import formats
from nextword.results.report.reproduction.reproduction_page import SIGNS, difference, verdict
from nextword.results.report.reproduction.tables_markdown import FEW, anchor, compared, plain, printed


def claims_markdown(tables: Sequence[ReproducedTable], folder: str = "results/papers") -> str:
    """A table for each paper: every main claim, the paper's difference, ours with interval and seeds, the verdict.

    Of a claim with many comparisons the outcomes are counted; each one is on the page of ``tables_markdown``.

    Args:
        tables: In order, those of a paper together; tables without a main claim are left out.
        folder: Where the pages of ``tables_markdown`` lie, one a paper.
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
    """The paper's side and ours."""
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
