"""The papers' main claims with what became of them, as Markdown: docs/claims.md is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from nextword.records.reproduced_table import JudgedClaim, ReproducedTable
from nextword.report.reproduction.reproduction_page import SIGNS, difference
from nextword.report.reproduction.tables_markdown import plain


def claims_markdown(tables: Sequence[ReproducedTable]) -> str:
    """A table for each paper: every main claim, the paper's difference, ours with interval and seeds, the verdict.

    Args:
        tables: In order, those of a paper together; tables without a main claim are left out.
    """
    parts = []
    for paper, members in groupby(tables, key=lambda table: table.paper):
        rows = [_row(table, claim) for table in members for claim in table.claims if claim.headline]
        if rows:
            head = ["| claim | verdict | table | paper | here |", "| --- | --- | --- | --- | --- |"]
            parts.append("\n".join([f"## {plain(paper)}", "", *head, *rows]))
    return "\n\n".join(parts) + "\n" if parts else ""


def _row(table: ReproducedTable, claim: JudgedClaim) -> str:
    pairs = [f"{one.first} − {one.second}, {one.column}" for one in claim.comparisons]
    printed = ["–" if one.printed is None else f"{one.printed:+.3g}" for one in claim.comparisons]
    ours = [difference(one) for one in claim.comparisons]
    several = len(pairs) > 1
    cells = [
        " ".join([claim.text, *([f"({claim.place})"] if claim.place else []), *([claim.note] if claim.note else [])]),
        f"{table.name}, scale {table.scale}",
        *(
            _lines([f"{pair}: {one}" for pair, one in zip(pairs, column, strict=True)] if several else column)
            for column in (printed, ours)
        ),
    ]
    verdict = f"{SIGNS[claim.outcome]} **{claim.outcome}**"
    reason = f": {plain(claim.reason)}" if claim.outcome == "not testable" else ""
    claim_text, *rest = map(_cell, cells)
    return f"| {' | '.join([claim_text, verdict + reason, *rest])} |"


def _lines(texts: Sequence[str]) -> str:
    return "\n".join(texts) or "–"


def _cell(text: str) -> str:
    return "<br>".join(map(plain, text.splitlines()))
