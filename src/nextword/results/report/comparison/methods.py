"""The methods of a comparison: their runs over seeds, and how each looks in every figure."""

from __future__ import annotations

from dataclasses import dataclass

from nextword.results.records import Measure, Results, RunRecord, measures_of
from nextword.results.report.template import METHODS as COLOURS
from nextword.results.report.template import variable

Dash = tuple[float, tuple[float, ...]]
"""Offset and lengths of the strokes and gaps of a line, as matplotlib takes them; no lengths: a solid line."""

_DASHES: tuple[Dash, ...] = ((0, ()), (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")


@dataclass(frozen=True)
class Style:
    """How a method is drawn, in every figure the same."""

    colour: str
    """In light."""
    dash: Dash
    marker: str

    @property
    def css(self) -> str:
        """The colour on the page, in light and in dark."""
        return variable(self.colour)


@dataclass(frozen=True)
class ReportedMethod:
    """All runs of one method."""

    label: str
    head: str
    objective: str
    conditioner: str | None
    """Conditioner spec; None where the method has none."""
    notes: tuple[str, ...]
    runs: tuple[RunRecord, ...]
    """By seed."""
    style: Style
    measures: dict[str, Measure]
    """What the metrics of all methods mean, by key, in reading order."""

    @property
    def parts(self) -> tuple[str, ...]:
        """What it is made of: head, objective and, where it has one, conditioner."""
        return self.head, self.objective, *([] if self.conditioner is None else [self.conditioner])

    @property
    def trained(self) -> bool:
        """Whether any run was trained."""
        return any(run.cost.trained_parameters > 0 or run.curve for run in self.runs)


def methods(results: Results) -> list[ReportedMethod]:
    """The methods in the order in which the comparison ran them."""
    grouped: dict[str, list[RunRecord]] = {}
    for run in results.runs:
        grouped.setdefault(run.method, []).append(run)
    measures = measures_of((run.evaluation for run in results.runs), results.measures)
    return [_method(label, runs, place, measures) for place, (label, runs) in enumerate(grouped.items())]


def _method(label: str, runs: list[RunRecord], place: int, measures: dict[str, Measure]) -> ReportedMethod:
    ordered = sorted(runs, key=lambda run: run.seed)
    notes = dict.fromkeys(run.note for run in ordered if run.note)  # a dict keeps the order, a set would not
    # The lengths have no common divisor, so that 440 methods pass before two look the same.
    style = Style(COLOURS[place % len(COLOURS)], _DASHES[place % len(_DASHES)], _MARKERS[place % len(_MARKERS)])
    first = ordered[0]
    parts = first.head, first.objective, first.conditioner
    return ReportedMethod(label, *parts, tuple(notes), tuple(ordered), style, measures)


# -- What a comparison has no number for, and why.


def failures(results: Results) -> list[tuple[str, str]]:
    """Runs that failed, then values that are not finite: which run, and what happened."""
    failed = [
        (f"{run.method}, seed {run.seed}", f"{run.reason} ({run.traceback})" if run.traceback else run.reason)
        for run in results.failures
    ]
    undefined = [
        (f"{run.method}, seed {run.seed}", f"{name} is {fault}")
        for run in results.runs
        for name, fault in run.evaluation.undefined.items()
    ]
    return failed + undefined
