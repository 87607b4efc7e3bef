"""The page of reproduced tables: one, or many below a list of contents."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from nextword.results.records import write_atomically
from nextword.results.records.reproduced_table import JudgedClaim, JudgedComparison, Outcome, ReproducedTable
from nextword.results.report.evaluation.evaluation_table import ARROWS
from nextword.results.report.parts import formats
from nextword.results.report.parts.template import style, template
from nextword.results.report.reproduction.printed_and_ours import Numbers, numbers, seeds_in_words

SIGNS: dict[Outcome, str] = {
    "held": "\N{CHECK MARK}",
    "not held": "\N{BALLOT X}",
    "undecided": "?",
    "not testable": formats.NOTHING,
}
"""Stand before an outcome's name, so that it is seen before it is read."""

GOALS = {"higher": "higher is better", "lower": "lower is better", "human": "the closer to people the better"}


@dataclass(frozen=True)
class Section:
    """One table on the page."""

    anchor: str
    table: ReproducedTable
    numbers: Numbers
    outcomes: tuple[tuple[str, int], ...]
    """How many of its claims came to each end; ends that none came to are left out."""


def write_reproduced_tables(tables: Sequence[ReproducedTable], path: str | os.PathLike[str], root: str = "") -> None:
    """Write tables of papers, with our numbers beside theirs, as one self-contained HTML page.

    Args:
        tables: In the order of the page; those of a paper together.
        path: The file to write; replaced as a whole.
        root: Leads from the page's folder to the folder of all tables, which the records' links begin from: "../".
    """
    write_atomically(path, render_reproduction(tables, root))


def render_reproduction(tables: Sequence[ReproducedTable], root: str = "") -> str:
    """The page as text; with several tables a list of contents stands before them.

    Args:
        tables: In the order of the page; those of a paper together.
        root: As in ``write_reproduced_tables``.
    """
    sections = [_section(table) for table in tables]
    papers = [(paper, list(members)) for paper, members in groupby(sections, key=lambda one: one.table.paper)]
    return template("reproduction.html.j2").render(
        style=style(),
        papers=papers,
        sections=sections,
        title=_title(tables),
        root=root,
        signs=SIGNS,
        arrows=ARROWS,
        goals=GOALS,
        nothing=formats.NOTHING,
        seeds=seeds_in_words,
        difference=difference,
        verdict=verdict,
    )


def _title(tables: Sequence[ReproducedTable]) -> str:
    if len(tables) == 1:
        return f"{tables[0].name}: {tables[0].title}"
    return f"{len(tables)} tables, the papers' numbers beside ours"


def _section(table: ReproducedTable) -> Section:
    anchor = re.sub(r"[^A-Za-z0-9]+", "-", f"{table.name}-{table.scale}")
    return Section(anchor, table, numbers(table), outcomes(table.claims))


def outcomes(claims: Sequence[JudgedClaim]) -> tuple[tuple[str, int], ...]:
    """How many claims came to each end, in the order of ``SIGNS``."""
    counted = Counter(claim.outcome for claim in claims)
    return tuple((outcome, counted[outcome]) for outcome in SIGNS if counted[outcome])


def verdict(claim: JudgedClaim) -> str:
    """The verdict with its sign and, of several comparisons, how many came out.

    >>> one = JudgedComparison(first="a", second="b", column="c", outcome="held")
    >>> other = one.model_copy(update={"outcome": "undecided"})
    >>> verdict(JudgedClaim(text="t", outcome="undecided", reason="r", comparisons=[one, one, other]))
    '? undecided (2 of 3)'
    >>> verdict(JudgedClaim(text="t", outcome="held", reason="r", comparisons=[one, one, other], needed=2))
    '✓ held (2 of 3, 2 needed)'
    """
    said = f"{SIGNS[claim.outcome]} {claim.outcome}"
    tested = [one.outcome for one in claim.comparisons if one.outcome != "not testable"]
    if not tested or len(claim.comparisons) == 1:
        return said
    count = [f"{tested.count('held')} of {len(tested)}"]
    count += [] if claim.needed is None else [f"{claim.needed} needed"]
    without = len(claim.comparisons) - len(tested)
    count += [f"{without} without numbers"] if without else []
    return f"{said} ({', '.join(count)})"


def difference(one: JudgedComparison) -> str:
    """What was found of a comparison: the difference with interval and seeds.

    >>> difference(JudgedComparison(first="a", second="b", column="c", outcome="held", difference=1.5, low=1, high=2,
    ...     seeds=3))
    '+1.5 (+1 to +2, 3 seeds)'
    """
    if one.difference is None:
        return "no number here"
    if one.low is None or one.high is None:
        return f"{one.difference:+.3g} ({seeds_in_words(one.seeds)} so far)" if one.seeds else f"{one.difference:+.3g}"
    return f"{one.difference:+.3g} ({one.low:+.3g} to {one.high:+.3g}, {seeds_in_words(one.seeds)})"
