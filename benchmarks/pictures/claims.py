"""The papers' claims: our differences with their intervals beside the printed ones, a picture for each paper."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nextword.results.records.reproduced_table import JudgedComparison, ReproducedTable, Scale
from nextword.results.report import svg
from nextword.results.report.template import METHODS
from pictures.style import Picture

PAPERS = ("histalign", "softmax-cpr", "f2-softmax", "conditional-summaries")
_COLOURS = dict(
    zip(
        ("supported", "not supported", "inconclusive", "not testable"),
        (METHODS[place] for place in (2, 1, 0, 7)),
        strict=True,
    )
)
_MARKS: dict[Scale, str] = {"small": "o", "pretrained": "D", "paper": "s"}
_MOST = 8
"""Claims with more comparisons are left out."""
_LETTERS = 62
"""Of a line of a claim."""


@dataclass
class ClaimDots:
    """A main claim with what our runs say of it.

    Attributes:
        text: The claim.
        dots: Our comparisons that have a printed difference, each with the scale of its run.
    """

    text: str
    dots: list[tuple[JudgedComparison, Scale]] = field(default_factory=list)

    @property
    def outcomes(self) -> list[str]:
        """Colours that the claim has, each with a line in the legend."""
        return [one.outcome for one, _ in self.dots] or ["not testable"]


def drawn(tables: Sequence[ReproducedTable], paper: str) -> list[ClaimDots]:
    """Main claims of a paper that have a printed difference, and those of their comparisons that we ran."""
    found: dict[tuple[str, str], ClaimDots] = {}
    for table in tables:
        for claim in table.claims if table.name.startswith(f"{paper}/") else ():
            printed = [one for one in claim.comparisons if one.printed]
            if claim.headline and printed and len(claim.comparisons) <= _MOST:
                of_claim = found.setdefault((table.name, claim.text), ClaimDots(claim.text))
                of_claim.dots += [(one, table.scale) for one in printed if one.difference is not None]
    return list(found.values())


_LARGEST = 300
"""Largest ratio on the axis."""


def claims(tables: Sequence[ReproducedTable], paper: str) -> Picture:
    """A row for each claim: its text, and below it a dot with an interval for each comparison."""
    rows = [(_lines(claim.text), claim) for claim in drawn(tables, paper)]
    heights = [0.56 * len(lines) + 0.5 + 0.24 * max(len(claim.dots), 1) for lines, claim in rows]
    return Picture(partial(_draw, rows, heights), 1.25 + 0.3 * sum(heights))


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, _LETTERS, max_lines=3, placeholder=" …")


def _draw(rows: Sequence[tuple[list[str], ClaimDots]], heights: list[float], figure: Any) -> None:
    panel, top = figure.subplots(), 0.0
    panel.set_xscale("symlog", linthresh=1, linscale=0.8)
    panel.set_xlim(-_LARGEST, _LARGEST)
    for (lines, claim), height in zip(rows, heights, strict=True):
        panel.axhline(top, color=svg.FAINT, linewidth=0.8)
        panel.text(0.0, top + 0.1, "\n".join(lines), va="top", ha="left", fontsize=9.5, linespacing=1.15,
                   transform=panel.get_yaxis_transform())  # fmt: skip
        begin = top + 0.56 * len(lines) + 0.3
        for number, (one, scale) in enumerate(claim.dots):
            at, printed = begin + 0.24 * (number + 0.5), one.printed or 1.0
            colour = _COLOURS[one.outcome]
            if one.low is not None and one.high is not None:
                panel.plot([one.low / printed, one.high / printed], [at, at], color=colour, linewidth=1.4)
            ratio = (one.difference or 0.0) / printed
            if abs(ratio) > _LARGEST:  # beyond the border: an arrow at it
                mark, ratio = (">", _LARGEST) if ratio > 0 else ("<", -_LARGEST)
                panel.plot([ratio], [at], mark, color=colour, markersize=6, clip_on=False)
            else:
                panel.plot([ratio], [at], _MARKS[scale], color=colour, markersize=4.5)
        panel.plot([0, 0], [begin - 0.05, top + height - 0.1], color=svg.EDGE, linewidth=1, zorder=1)
        panel.plot([1, 1], [begin - 0.05, top + height - 0.1], color=svg.INK, linewidth=2, zorder=1)
        if not claim.dots:
            panel.text(1.15, begin + 0.12, "not testable", va="center", color=_COLOURS["not testable"], fontsize=9)
        top += height
    seen = {outcome for _, claim in rows for outcome in claim.outcomes}
    scales = {scale for _, claim in rows for _, scale in claim.dots}
    for scale, mark in _MARKS.items() if len(scales) > 1 else ():
        if scale in scales:
            panel.plot([], [], mark, color=svg.INK, markersize=4.5, label=f"scale {scale}")
    for outcome, colour in _COLOURS.items():
        if outcome in seen:
            panel.plot([], [], "o", color=colour, label=outcome)
    panel.plot([], [], "|", color=svg.INK, markersize=11, markeredgewidth=2, label="printed difference")
    panel.set_xticks([-100, -10, -1, 0, 1, 10, 100], ["−100", "−10", "−1", "0", "1", "10", "100"])
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.set_ylim(top, 0)
    panel.set_xlabel(
        "our difference ÷ printed difference, with 95 % interval\n"
        "(below 0: the opposite direction; arrows: beyond ±300)"
    )
    figure.legend(loc="outside upper left", ncols=2, handlelength=1.0, columnspacing=1.0)


def pictures(tables: Sequence[ReproducedTable]) -> dict[str, Picture]:
    """Of every paper with a claim to show."""
    return {f"claims/{paper}": claims(tables, paper) for paper in PAPERS if drawn(tables, paper)}
