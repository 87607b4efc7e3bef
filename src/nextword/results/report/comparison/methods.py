"""The methods of a comparison, with their runs and styles in figures."""

from __future__ import annotations

from dataclasses import dataclass

from nextword.results.records import Measure, Results, RunRecord, measures_of
from nextword.results.report.template import METHODS as COLOURS
from nextword.results.report.template import variable

Dash = tuple[float, tuple[float, ...]]
"""Offset, and lengths of the strokes and gaps of a line, in matplotlib's form. Without lengths it is a solid line."""

_DASHES: tuple[Dash, ...] = ((0, ()), (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")


@dataclass(frozen=True)
class Style:
    """Style of a method, which is the same in all figures."""

    colour: str
    """Colour in the light theme."""
    dash: Dash
    marker: str

    @property
    def css(self) -> str:
        """The CSS variable of the colour, for the light and the dark theme."""
        return variable(self.colour)


@dataclass(frozen=True)
class ReportedMethod:
    """All runs of one method."""

    label: str
    head: str
    objective: str
    conditioner: str | None
    """Conditioner spec; None: no conditioner."""
    notes: tuple[str, ...]
    runs: tuple[RunRecord, ...]
    """Runs by seed."""
    style: Style
    measures: dict[str, Measure]
    """Descriptions of the metrics of all methods by key, in the order of the report."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Specs of the head, the objective and, if there is one, the conditioner."""
        return self.head, self.objective, *([] if self.conditioner is None else [self.conditioner])

    @property
    def trained(self) -> bool:
        """Whether any run was trained."""
        return any(run.cost.trained_parameters > 0 or run.curve for run in self.runs)


def methods(results: Results) -> list[ReportedMethod]:
    """The methods, in the order of the comparison."""
    grouped: dict[str, list[RunRecord]] = {}
    for run in results.runs:
        grouped.setdefault(run.method, []).append(run)
    measures = measures_of((run.evaluation for run in results.runs), results.measures)
    return [_method(label, runs, place, measures) for place, (label, runs) in enumerate(grouped.items())]


def _method(label: str, runs: list[RunRecord], place: int, measures: dict[str, Measure]) -> ReportedMethod:
    ordered = sorted(runs, key=lambda run: run.seed)
    notes = dict.fromkeys(run.note for run in ordered if run.note)  # a dict keeps the order of the notes
    # The numbers of colours, dashes and markers have no common divisor, so 440 methods have different styles.
    style = Style(COLOURS[place % len(COLOURS)], _DASHES[place % len(_DASHES)], _MARKERS[place % len(_MARKERS)])
    first = ordered[0]
    parts = first.head, first.objective, first.conditioner
    return ReportedMethod(label, *parts, tuple(notes), tuple(ordered), style, measures)


# -- Missing numbers of a comparison, and the reasons.


def failures(results: Results) -> list[tuple[str, str]]:
    """Failed runs, then values that are not finite. Each entry has the run and the reason."""
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
