"""Figures of the texts that the methods wrote, each as inline SVG; None where the records have nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nextword.results.records import EvaluationResults, Results, SystemRecord
from nextword.results.report.comparison.figures import short
from nextword.results.report.comparison.main_table import in_order
from nextword.results.report.comparison.methods import Method
from nextword.results.report.comparison.sweep import Point, Quantity, Sweep
from nextword.results.report.evaluation.evaluation_table import HUMAN, spread
from nextword.results.report.parts import formats, svg
from nextword.results.report.parts.palette import INK, PAPER
from nextword.results.report.parts.svg import WIDE, Format

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

GROUPS = ("share-frequent", "share-medium", "share-rare", "share-very-rare")
"""Keys of the shares, most frequent tokens first."""

MANY = 7
"""From so many methods on, a panel takes the whole width."""

_HATCHES = ("", "////", "\\\\\\\\", "----", "xxxx", "||||")  # no dots: each would be a circle of many points
_DASHES = ((0, (6, 2)), (0, (8, 2, 1, 2)), (0, (3, 2)), (0, (8, 2, 1, 2, 1, 2)))
_DOTS = (0, (1, 1.6))


def frequency_groups(results: Results, methods: Sequence[Method], room: Format = WIDE) -> str | None:
    """Shares of frequent to very rare tokens (F2-Softmax, figure 2): a panel a decoding, a bar a method."""
    found = [(title, texts) for title, texts in in_order(results) if all(key in texts.measures for key in GROUPS)]
    shown = [method for method in methods if any(_system(texts, method) is not None for _, texts in found)]
    if not found or not shown:
        return None
    columns = 1 if room.narrow or len(found) == 1 or len(shown) >= MANY else 2
    lines = math.ceil(len(found) / columns)
    with svg.figure("groups", room, 2.3 * lines + 0.5 + _legend_height(len(shown) + 1, room)) as drawn:
        panels = drawn.subplots(lines, columns, sharey=True, squeeze=False).flatten()
        for panel, (title, texts) in zip(panels, found, strict=False):
            _bars(panel, shown, texts)
            panel.set_title(title)
        for panel in panels[len(found) :]:
            panel.set_visible(False)
        drawn.supylabel(formats.unit_name(_unit(found)).partition(" (")[0], fontsize=9.5)
        svg.legend(drawn, _legend_of_bars(shown, any(texts.human is not None for _, texts in found)), room)
        return svg.inline(
            drawn, "groups", room, "Bars of the shares of frequent, medium, rare and very rare tokens for every method"
        )


def _unit(found: Sequence[tuple[str, EvaluationResults]]) -> str:
    return found[0][1].measures[GROUPS[0]].unit


def units_of_groups(results: Results) -> list[str]:
    """What the shares are of, in full: the units say by which frequencies tokens fall into groups."""
    measures = (measure for texts in results.texts.values() for key, measure in texts.measures.items() if key in GROUPS)
    return list(dict.fromkeys(formats.unit_name(measure.unit) for measure in measures))


def _system(texts: EvaluationResults, method: Method) -> SystemRecord | None:
    return next((system for system in texts.systems if system.name == method.label), None)


def _bars(panel: Axes, methods: Sequence[Method], texts: EvaluationResults) -> None:
    width = 0.82 / len(methods)
    for group, key in enumerate(GROUPS):
        scale = formats.scale(texts.measures[key].unit)
        for place, method in enumerate(methods):
            system = _system(texts, method)
            if system is None or key not in system.values:
                continue
            where = group + (place - (len(methods) - 1) / 2) * width
            panel.bar(
                where,
                system.values[key].value * scale,
                width * 0.94,
                color=method.style.colour,
                hatch=_HATCHES[place % len(_HATCHES)],
                edgecolor=PAPER,
                linewidth=0.4,
            )
            ends = spread(system, key)
            if ends is not None:
                panel.plot([where, where], [end * scale for end in ends], color=INK, linewidth=1.0, zorder=3)
        human = texts.human.values.get(key) if texts.human is not None else None
        if human is not None:
            there = [group - 0.46, group + 0.46]
            panel.plot(there, [human.value * scale] * 2, color=INK, linestyle=_DOTS, linewidth=1.8, zorder=4)
    names = [texts.measures[key].title.removesuffix(" tokens") for key in GROUPS]
    panel.set_xticks(range(len(GROUPS)), names, color=INK)
    panel.tick_params(axis="x", length=0)
    panel.grid(axis="y")


def _legend_of_bars(methods: Sequence[Method], human: bool) -> list[Artist]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Artist] = [
        Patch(
            facecolor=method.style.colour,
            hatch=_HATCHES[place % len(_HATCHES)],
            edgecolor=PAPER,
            label=short(method.label),
        )
        for place, method in enumerate(methods)
    ]
    if human:
        handles.append(Line2D([], [], color=INK, linestyle=_DOTS, linewidth=1.8, label=HUMAN))
    return handles


def _legend_height(entries: int, room: Format) -> float:
    """Inches that a legend over the panels of a narrow figure takes at most."""
    return 0.2 * entries if room.narrow else 0.0


def class_sweep(shown: Sweep, room: Format = WIDE) -> str:
    """Measures against the number of classes (F2-Softmax, figure 3): a panel for each measure, a line a division."""
    columns = min(2 if room.narrow else 4, len(shown.quantities))
    lines = math.ceil(len(shown.quantities) / columns)
    keys = _legend_of_sweep(shown)
    with svg.figure("sweep", room, 2.35 * lines + 0.75 + _legend_height(len(keys), room)) as drawn:
        panels = drawn.subplots(lines, columns, squeeze=False).flatten()
        for panel, quantity in zip(panels, shown.quantities, strict=False):
            _panel(panel, shown, quantity)
        for panel in panels[len(shown.quantities) :]:
            panel.set_visible(False)
        drawn.supxlabel("number of classes", fontsize=9.5)
        svg.legend(drawn, keys, room, above=True)
        titles = formats.listing([quantity.title for quantity in shown.quantities])
        return svg.inline(drawn, "sweep", room, f"Lines of {titles} against the number of classes")


def _panel(panel: Axes, shown: Sweep, quantity: Quantity) -> None:
    for _, points in shown.lines:
        style = points[0].method.style
        there = [point for point in points if point.method.label in quantity.values]
        means = [quantity.values[point.method.label].mean for point in there]
        panel.plot([point.classes for point in there], means, color=style.colour, marker=style.marker, linestyle="-")
        for point in there:
            _ends(panel, point, quantity, style.colour)
    for point in shown.chosen:
        if point.method.label in quantity.values:
            _ends(panel, point, quantity, point.method.style.colour)
            panel.add_line(_star(point, [point.classes], [quantity.values[point.method.label].mean]))
    for place, method in enumerate(shown.flat):
        if method.label in quantity.values:
            dash = _DASHES[place % len(_DASHES)]
            panel.axhline(
                quantity.values[method.label].mean, color=method.style.colour, linestyle=dash, linewidth=1.3, zorder=1
            )
    if quantity.human is not None:
        panel.axhline(quantity.human, color=INK, linestyle=_DOTS, linewidth=1.6, zorder=1)
    _classes_axis(panel, [point.classes for _, points in shown.lines for point in points])
    panel.set_title(quantity.title)
    panel.set_ylabel(quantity.unit, fontsize=9.0)
    panel.grid(axis="y")
    panel.locator_params(axis="y", nbins=5)
    panel.margins(y=0.12)


def _star(point: Point, x: Sequence[float], y: Sequence[float]) -> Line2D:
    """A star for the choice of MefMax, to be drawn or, without places, to be a key of the legend."""
    from matplotlib.lines import Line2D

    label = f"{short(point.method.label)} (chosen)"
    return Line2D(
        x,
        y,
        marker="*",
        markersize=12.0,
        markeredgecolor=PAPER,
        markeredgewidth=0.6,
        linestyle="none",
        color=point.method.style.colour,
        label=label,
        zorder=4,
    )


def _ends(panel: Axes, point: Point, quantity: Quantity, colour: str) -> None:
    ends = quantity.values[point.method.label].ends
    if ends is not None:
        panel.plot([point.classes] * 2, list(ends), color=colour, linewidth=1.0, alpha=0.8)


def _classes_axis(panel: Axes, classes: Sequence[int]) -> None:
    from matplotlib.ticker import NullLocator

    panel.set_xscale("log")
    ticks: list[int] = []
    for number in sorted(set(classes)):  # only those that have room between them
        if not ticks or number / ticks[-1] >= 1.45:
            ticks.append(number)
    panel.set_xticks(ticks, [str(number) for number in ticks])
    panel.xaxis.set_minor_locator(NullLocator())


def _legend_of_sweep(shown: Sweep) -> list[Artist]:
    from matplotlib.lines import Line2D

    handles: list[Artist] = []
    names = [division for division, _ in shown.lines]
    for division, points in shown.lines:
        first = points[0].method
        # Two lines of one division differ in head or objective, which their methods' labels say.
        label = division if names.count(division) == 1 else f"{division}: {short(first.label)}, ..."
        handles.append(Line2D([], [], color=first.style.colour, marker=first.style.marker, label=label))
    handles += [_star(point, [], []) for point in shown.chosen]
    handles += [
        Line2D([], [], color=method.style.colour, linestyle=_DASHES[place % len(_DASHES)], label=short(method.label))
        for place, method in enumerate(shown.flat)
    ]
    if any(quantity.human is not None for quantity in shown.quantities):
        handles.append(Line2D([], [], color=INK, linestyle=_DOTS, linewidth=1.6, label=HUMAN))
    return handles
