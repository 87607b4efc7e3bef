"""Figures of the report as inline SVG. A function returns None if the records have no data for its figure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from nextword.results.records import Measure, MetricValue
from nextword.results.records.known_measures import PROMPTED
from nextword.results.report import formats, svg
from nextword.results.report.comparison.methods import ReportedMethod
from nextword.results.report.template import INK, PAPER, SOFT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HATCHES = ("", "////", "....", "xxxx")

LONGEST_NAME = 20
"""Maximum characters of a method's name next to a panel."""


def _grid(panels: int, beside: int) -> tuple[int, int]:
    """Rows and columns of a grid of panels."""
    lines = math.ceil(panels / beside)
    return lines, math.ceil(panels / lines)


def accuracy(methods: Sequence[ReportedMethod]) -> str | None:
    """Bars of Acc@k, one panel per k and one row per method. A row has bars for the head and for its cache alone."""
    found = _of_group(methods, "Accuracy")
    if not found:
        return None
    titles = list(dict.fromkeys(m.title for m in found.values()))
    settings = list(dict.fromkeys(m.setting for m in found.values()))
    lines, columns = _grid(len(titles), 3)
    bars = len(methods) * (len(settings) + 0.6)
    with svg.figure("accuracy", lines * (0.55 + 0.2 * bars) + 0.35) as drawn:
        panels = list(drawn.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flatten())
        for panel, title in zip(panels, titles, strict=False):
            shown = {m.setting: key for key, m in found.items() if m.title == title}
            _bars(panel, methods, [shown.get(setting) for setting in settings])
            panel.set_title(title)
        _without(panels, len(titles), columns)
        _method_names(panels, methods)
        drawn.supxlabel(_unit(methods, next(iter(found))))
        if len(settings) > 1:
            _setting_legend(drawn, settings)
        return svg.inline(
            drawn, "accuracy", f"Bars of {formats.listing(titles)} for every method; numbers as in the table"
        )


def likelihood(methods: Sequence[ReportedMethod]) -> str | None:
    """Perplexity, bits per byte and similar metrics, one panel per metric, with a dot and interval per run."""
    # Values with a prompt have only one panel (perplexity), because more panels would need too much space.
    shown = {
        key: m
        for key, m in _of_group(methods, "Likelihood").items()
        if m.title == "perplexity" or (m.setting != PROMPTED and m.title != "mean perplexity")
    }
    return _dot_panels("likelihood", methods, shown)


def steering(methods: Sequence[ReportedMethod]) -> str | None:
    """Nats per token that a text loses with another's auxiliary text: a dot and interval per run, a line at zero."""
    return _dot_panels("steering", methods, _of_group(methods, "Steering"), zero=True)


def _dot_panels(
    name: str, methods: Sequence[ReportedMethod], found: dict[str, Measure], *, zero: bool = False
) -> str | None:
    if not found:
        return None
    lines, columns = _grid(len(found), 2)
    with svg.figure(name, lines * (0.85 + 0.34 * len(methods))) as drawn:
        panels = list(drawn.subplots(lines, columns, sharey=True, squeeze=False).flatten())
        for panel, (key, shown) in zip(panels, found.items(), strict=False):
            for place, method in enumerate(methods):
                _dots(panel, place, method, key)
            if zero:
                panel.axvline(0.0, color=INK, linewidth=1.0, zorder=1)
            panel.set_title(",\n".join([shown.title, *shown.group.split(", ")[1:]]))
            panel.set_xlabel(textwrap.fill(_unit(methods, key), int(9 * svg.WIDTH / columns)))
            panel.grid(axis="x")
            panel.margins(x=0.12)
            panel.locator_params(axis="x", nbins=4)
            panel.tick_params(axis="y", length=0)
        _without(panels, len(found), columns)
        _method_names(panels, methods)
        return svg.inline(drawn, name, "Dots with intervals for every method; numbers as in the table")


def spectrum(methods: Sequence[ReportedMethod]) -> str | None:
    """Singular values of the log-probability matrix on a logarithmic axis, one line per run."""
    drawable = [method for method in methods if any(run.evaluation.spectrum for run in method.runs)]
    if not drawable:
        return None
    with svg.figure("spectrum", _height_of_lines(drawable)) as drawn:
        panel = drawn.subplots()
        for method in drawable:
            for run in method.runs:
                # a logarithmic axis cannot show zeros, so the line ends before them
                values = [value for value in run.evaluation.spectrum or [] if value > 0]
                _line(panel, method, list(range(1, len(values) + 1)), values)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(_power)
        for threshold in _thresholds(methods):
            _threshold(panel, threshold)
        panel.set_xlabel("index of the singular value")
        panel.set_ylabel("singular value / largest")
        _line_legend(drawn, drawable)
        return svg.inline(drawn, "spectrum", "Singular values in falling order, a line for every method")


def curves(methods: Sequence[ReportedMethod]) -> str | None:
    """Training loss over steps, one line per run."""
    from matplotlib.ticker import MaxNLocator

    drawable = [method for method in methods if any(run.curve for run in method.runs)]
    if not drawable:
        return None
    with svg.figure("curves", _height_of_lines(drawable)) as drawn:
        panel = drawn.subplots()
        for method in drawable:
            for run in method.runs:
                _line(panel, method, [point.step for point in run.curve], [point.loss for point in run.curve])
        panel.set_xlabel("optimiser steps")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_ylabel("training loss (own objective, nats)")
        _line_legend(drawn, drawable)
        return svg.inline(drawn, "curves", "Training loss over steps, a line for every method")


def _threshold(panel: Axes, threshold: float) -> None:
    panel.axhline(threshold, color=SOFT, linewidth=0.9, linestyle=(0, (2, 2)), zorder=0.5)
    # next to the panel, where there is no line
    panel.annotate(
        f"rank at\n{threshold:g}",
        (1, threshold),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        verticalalignment="center",
        fontsize=9,
        color=SOFT,
        annotation_clip=False,
    )


def _of_group(methods: Sequence[ReportedMethod], group: str) -> dict[str, Measure]:
    """Metrics of all cases with one heading."""
    found = methods[0].measures if methods else {}
    return {key: one for key, one in found.items() if not one.subset and one.group.startswith(group)}


def _values(method: ReportedMethod, key: str) -> list[MetricValue]:
    return [run.evaluation.metrics[key] for run in method.runs if key in run.evaluation.metrics]


def _unit(methods: Sequence[ReportedMethod], key: str) -> str:
    return formats.unit_name(next(value.unit for method in methods for value in _values(method, key)))


def _bars(panel: Axes, methods: Sequence[ReportedMethod], shown: Sequence[str | None]) -> None:
    height = 0.8 / len(shown)
    for place, method in enumerate(methods):
        for i, key in enumerate(shown):
            values = _values(method, key) if key is not None else []
            if not values:
                continue
            scale = formats.scale(values[0].unit)
            where = place + (i - (len(shown) - 1) / 2) * height
            mean = fmean(value.value for value in values) * scale
            panel.barh(
                where,
                mean,
                height * 0.92,
                color=method.style.colour if i == 0 else PAPER,
                edgecolor=method.style.colour,
                hatch=_HATCHES[i % len(_HATCHES)],
                linewidth=0.8,
            )
            # the intervals of seeds are next to each other inside the bar, so that they do not overlap
            for j, value in enumerate(values):
                offset = (j - (len(values) - 1) / 2) * height * 0.7 / len(values)
                _interval(panel, where + offset, value, scale, INK)
    panel.grid(axis="x")
    panel.tick_params(axis="y", length=0)


def _dots(panel: Axes, place: int, method: ReportedMethod, key: str) -> None:
    values = _values(method, key)
    for j, value in enumerate(values):
        scale = formats.scale(value.unit)
        where = place + (j - (len(values) - 1) / 2) * 0.6 / len(values)
        _interval(panel, where, value, scale, method.style.colour)
        panel.plot([value.value * scale], [where], method.style.marker, color=method.style.colour)


def _interval(panel: Axes, where: float, value: MetricValue, scale: float, colour: str) -> None:
    if value.interval is not None:
        panel.plot([end * scale for end in value.interval], [where, where], color=colour, linewidth=1.2, zorder=3)


def _method_names(panels: Iterable[Axes], methods: Sequence[ReportedMethod]) -> None:
    for panel in panels:
        panel.set_yticks(range(len(methods)), [short(method.label, LONGEST_NAME) for method in methods], color=INK)
        panel.set_ylim(len(methods) - 0.45, -0.55)  # the first method is at the top, as in the table


def _without(panels: Sequence[Axes], used: int, columns: int) -> None:
    """Remove unused panels. The panels above them get axis labels."""
    for place, panel in enumerate(panels[used:], used):
        panel.set_visible(False)
        panels[place - columns].tick_params(labelbottom=True)


def _setting_legend(drawn: Figure, settings: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    patches = [
        Patch(facecolor=SOFT if i == 0 else PAPER, edgecolor=SOFT, hatch=_HATCHES[i % len(_HATCHES)], label=label)
        for i, label in enumerate(formats.setting(setting) for setting in settings)
    ]
    svg.legend(drawn, patches)


def _line(panel: Axes, method: ReportedMethod, x: list[int], y: list[float]) -> None:
    style = method.style
    every = max(1, len(x) // 8)
    panel.plot(x, y, color=style.colour, linestyle=style.dash, marker=style.marker, markevery=every, alpha=0.9)
    panel.grid(axis="y")


def _line_legend(drawn: Figure, shown: Sequence[ReportedMethod]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=m.style.colour, linestyle=m.style.dash, marker=m.style.marker, label=short(m.label))
        for m in shown
    ]
    svg.legend(drawn, handles)


def _power(value: float, _: float) -> str:
    """A power of ten in plain characters, because matplotlib's notation is not parsed if labels may have "$" signs."""
    exponent = math.log10(value)
    digits = f"{exponent:.0f}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{digits}" if math.isclose(exponent, round(exponent), abs_tol=1e-9) else f"{value:g}"


def _height_of_lines(methods: Sequence[ReportedMethod]) -> float:
    return 2.9 + 0.12 * len(methods)  # the legend is above the lines, with two methods per row


def _thresholds(methods: Sequence[ReportedMethod]) -> list[float]:
    """Thresholds of the ranks, relative to the largest singular value."""
    spectra = [run.evaluation.spectrum for method in methods for run in method.runs if run.evaluation.spectrum]
    if any(values[0] != 1.0 for values in spectra):
        return []
    found = []
    for key in _of_group(methods, "Rank"):
        try:
            found.append(float(key.rpartition("rank@")[2]))
        except ValueError:
            continue  # the key is of another metric, or has no threshold ("default")
    return found


def short(label: str, length: int = 30) -> str:
    """Shorten a long label in the middle, because names of similar methods often differ at an end."""
    half = length // 2
    return label if len(label) <= length else f"{label[: half - 1]}…{label[-half:]}"
