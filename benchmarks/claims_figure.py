"""The chart of ``docs/claims.md``: our differences with their intervals, as multiples of the printed ones."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nextword.results.records.reproduced_table import JudgedClaim, JudgedComparison, ReproducedTable
from nextword.results.report import svg

_COLOURS = {"supported": "#1a7f37", "not supported": "#bc4c00", "inconclusive": "#6e7781"}
_NAMES = {"conditional-summaries": "Summaries", "f2-softmax": "F²", "histalign": "HistAlign", "softmax-cpr": "CPR"}
"""Short names of the papers."""
_MOST = 8
"""Claims with more comparisons are left out."""


def drawn(tables: Sequence[ReproducedTable]) -> list[tuple[str, JudgedClaim, list[JudgedComparison]]]:
    """Main claims with comparisons that have a printed difference and an interval of ours, and their paper."""
    found = []
    for table in tables:
        for claim in table.claims:
            numbers = [one for one in claim.comparisons if one.printed and one.difference is not None]
            usable = [one for one in numbers if one.low != one.high]
            if claim.headline and 0 < len(claim.comparisons) <= _MOST and usable and claim.outcome in _COLOURS:
                found.append((table.name.partition("/")[0], claim, usable))
    return found


def write(tables: Sequence[ReproducedTable], path: Path) -> None:
    """Draws the chart."""
    rows = drawn(tables)
    with svg.figure("claims", 1.6 + 0.52 * len(rows), 7.4) as figure:
        figure.patch.set_facecolor("white")  # a page may be dark
        _draw(figure.subplots(), rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))


def _draw(panel: Any, rows: Sequence[tuple[str, JudgedClaim, list[JudgedComparison]]]) -> None:
    for place, (_, _, comparisons) in enumerate(rows):
        for number, one in enumerate(comparisons):
            at = place + 0.11 * (number - (len(comparisons) - 1) / 2)
            printed = one.printed or 1.0
            value = (one.difference or 0.0) / printed
            ends = [(one.low or 0.0) / printed, (one.high or 0.0) / printed]
            colour = _COLOURS[one.outcome]
            panel.plot(ends, [at, at], color=colour, linewidth=1.2)
            panel.plot([value], [at], "o", color=colour, markersize=3.5)
        panel.plot([1], [place], marker="|", color=svg.INK, markersize=16)
    for outcome, colour in _COLOURS.items():
        panel.plot([], [], "o", color=colour, label=outcome)
    panel.plot([], [], "|", color=svg.INK, markersize=10, label="printed difference")
    panel.axvline(0, color=svg.SOFT, linewidth=0.8)
    panel.set_xscale("symlog", linthresh=1)
    panel.set_xticks([-100, -10, -1, 0, 1, 10, 100], ["−100", "−10", "−1", "0", "1", "10", "100"])
    names = [f"{_NAMES[paper]}: {textwrap.shorten(claim.text, 84, placeholder=' …')}" for paper, claim, _ in rows]
    panel.set_yticks(range(len(rows)), [textwrap.fill(name, 40) for name in names], fontsize=7.5)
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.set_xlabel("our difference over the printed one, with 95 % interval\n(below 0: the opposite direction)")
    panel.grid(axis="x")
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, fontsize=8, columnspacing=1.0, handletextpad=0.3)
