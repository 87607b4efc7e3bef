"""Sections on generated texts in the report of a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nextword.results.records import (
    WITH_PROMPT,
    EvaluationResults,
    Results,
    Span,
    SystemRecord,
    WrittenExample,
)
from nextword.results.report import formats, svg
from nextword.results.report.columns import GlossaryEntry, of_measures
from nextword.results.report.comparison.figures import short
from nextword.results.report.comparison.main_table import (
    Point,
    Quantity,
    Sheet,
    Sweep,
    in_order,
    sheets,
    whole_systems,
)
from nextword.results.report.comparison.methods import ReportedMethod
from nextword.results.report.evaluation_table import (
    HUMAN,
    Test,
    measure_table,
    note_on_tests,
    notes,
    paired_rows,
    spread,
    undefined,
)
from nextword.results.report.table import ReportTable
from nextword.results.report.template import INK, PAPER

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


@dataclass(frozen=True)
class DecodingSection:
    """The section of one decoding."""

    title: str
    table: ReportTable
    """Table of all metrics, one row per metric."""
    evaluation: EvaluationResults
    tests: tuple[Test, ...]
    """Paired tests of the metrics in the table."""
    tests_note: str
    undefined: tuple[tuple[str, str, dict[str, str]], ...]
    notes: tuple[str, ...]
    vote_titles: str
    """Titles of the metrics of the ranking."""
    glossary: tuple[GlossaryEntry, ...]
    """Explanations of the metrics that have no column in the table with one row per method."""


@dataclass(frozen=True)
class Way:
    """The decodings that share a heading in the report."""

    anchor: str
    sheet: Sheet
    decodings: tuple[DecodingSection, ...]


MARKS = {
    "rare": "very rare in the training text (beyond its first 90 % of tokens, most frequent first)",
    "word": "very rare and in lower case, so not a name (red in F2-Softmax's table 4)",
    "again": "very rare and earlier in the same text (green in that table)",
}
"""Marks of very rare words with their meanings. If several marks apply, the last one is shown."""


@dataclass(frozen=True)
class TextsReading:
    """A prompt with the human reference and the methods' texts."""

    prompt: str
    kind: str
    beside: bool
    """Whether the prompt is shown next to the texts, because it is a whole document."""
    writings: tuple[tuple[str, WrittenExample], ...]
    """Texts with their titles (decoding and, if needed, whether there was a prompt)."""


def mark(span: Span) -> str:
    """Return the mark of a span, a key of ``MARKS``; empty if the span's words are not very rare."""
    return "again" if span.repeated else "word" if span.lower_case else "rare" if span.very_rare else ""


def legend(found: Sequence[TextsReading]) -> tuple[list[tuple[str, str]], bool]:
    """Names and meanings of the marks in the texts ``found``, and whether any span was copied from the source."""
    texts = [text for reading in found for _, example in reading.writings for text in example.texts]
    spans = [span for text in texts for span in text.spans]
    used = {mark(span) for span in spans if span.text.strip()}
    return [(name, said) for name, said in MARKS.items() if name in used], any(one.copied and one.text for one in spans)


def ways(results: Results, methods: Sequence[ReportedMethod]) -> list[Way]:
    """The sections of all decodings, greedy first. Empty if no texts were generated."""
    return [
        Way(
            anchor=f"texts-{number}",
            sheet=sheet,
            decodings=tuple(_decoding(results, title, sheet.table) for title in sheet.decodings),
        )
        for number, sheet in enumerate(sheets(results, methods), 1)
    ]


def _decoding(results: Results, title: str, table: ReportTable) -> DecodingSection:
    texts = results.texts[title]
    columns = {column.key for column in table.columns}
    votes = [texts.measures[key].title for key in texts.wins.measures] if texts.wins is not None else []
    return DecodingSection(
        title=title,
        table=measure_table(texts, judged=whole_systems(texts, len(results.seeds))),
        evaluation=texts,
        tests=tuple(paired_rows(texts, columns)),
        tests_note=note_on_tests(texts),
        undefined=tuple(undefined(texts)),
        notes=tuple(notes(texts)),
        vote_titles=", ".join(votes),
        glossary=tuple(of_measures({key: one for key, one in texts.measures.items() if key not in columns})),
    )


def readings(results: Results) -> list[TextsReading]:
    """The example texts, grouped by prompt, in the order of ``results.written``."""
    by_prompt: dict[tuple[str | None, str], list[WrittenExample]] = {}
    for example in results.written:
        by_prompt.setdefault((example.source, example.prompt), []).append(example)
    chosen = any(title.endswith(WITH_PROMPT) for title in results.texts)
    kind = "Summary" if chosen else "Prompt"

    def way(decoding: str) -> str:
        return f"{decoding}, without prompt" if chosen and not decoding.endswith(WITH_PROMPT) else decoding

    return [
        TextsReading(
            prompt=prompt if source is None else source,
            kind=kind if source is None or chosen else "Source",
            beside=source is not None and not chosen,
            writings=tuple((way(example.decoding), example) for example in examples),
        )
        for (source, prompt), examples in by_prompt.items()
    ]


def heads(methods: Sequence[ReportedMethod]) -> list[tuple[str, str]]:
    """Return pairs of label and facts about the head, one per method, or one per seed if the seeds' facts differ."""
    found = []
    for method in methods:
        told = {
            run.seed: "; ".join(f"{name}: {thing}" for name, thing in formats.pairs(run.facts))
            for run in method.runs
            if run.facts
        }
        differ = len(set(told.values())) > 1
        for seed, facts in told.items() if differ else list(told.items())[:1]:
            found.append((f"{method.label}, seed {seed}" if differ else method.label, facts))
    return found


# -- Figures of the generated texts as inline SVG. A function returns None if the records have no data for its figure.

GROUPS = ("share-frequent", "share-medium", "share-rare", "share-very-rare")
"""Keys of the shares, from frequent to very rare."""

_HATCHES = ("", "////", "\\\\\\\\", "----", "xxxx", "||||")  # no dots, because each dot would be a circle in the SVG
_DASHES = ((0, (6, 2)), (0, (8, 2, 1, 2)), (0, (3, 2)), (0, (8, 2, 1, 2, 1, 2)))
_DOTS = (0, (1, 1.6))


def frequency_groups(results: Results, methods: Sequence[ReportedMethod]) -> str | None:
    """Figure of the shares of frequent to very rare tokens (F2-Softmax, figure 2)."""
    found = [(title, texts) for title, texts in in_order(results) if all(key in texts.measures for key in GROUPS)]
    shown = [method for method in methods if any(_system(texts, method) is not None for _, texts in found)]
    if not found or not shown:
        return None
    with svg.figure("groups", 2.1 * len(found) + 0.3 + _legend_height(len(shown) + 1)) as drawn:
        panels = drawn.subplots(len(found), sharey=True, squeeze=False).flatten()
        for panel, (title, texts) in zip(panels, found, strict=True):
            _bars(panel, shown, texts)
            panel.set_title(title)
        drawn.supylabel(formats.unit_name(found[0][1].measures[GROUPS[0]].unit).partition(" (")[0])
        svg.legend(drawn, _legend_of_bars(shown, any(texts.human is not None for _, texts in found)))
        return svg.inline(
            drawn, "groups", "Bars of the shares of frequent, medium, rare and very rare tokens for every method"
        )


def units_of_groups(results: Results) -> list[str]:
    """The units of the shares in ``GROUPS``. A unit says in which text the token frequencies were counted."""
    measures = (measure for texts in results.texts.values() for key, measure in texts.measures.items() if key in GROUPS)
    return list(dict.fromkeys(formats.unit_name(measure.unit) for measure in measures))


def _system(texts: EvaluationResults, method: ReportedMethod) -> SystemRecord | None:
    return next((system for system in texts.systems if system.name == method.label), None)


def _bars(panel: Axes, methods: Sequence[ReportedMethod], texts: EvaluationResults) -> None:
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


def _legend_of_bars(methods: Sequence[ReportedMethod], human: bool) -> list[Artist]:
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


def _legend_height(entries: int) -> float:
    """Height of a legend in inches."""
    return 0.12 * entries


def class_sweep(shown: Sweep) -> str:
    """Figure of metrics over the number of classes (F2-Softmax, figure 3), with one panel per metric."""
    columns = min(2, len(shown.quantities))
    lines = math.ceil(len(shown.quantities) / columns)
    keys = _legend_of_sweep(shown)
    with svg.figure("sweep", 1.9 * lines + 0.4 + _legend_height(len(keys))) as drawn:
        panels = drawn.subplots(lines, columns, squeeze=False).flatten()
        for panel, quantity in zip(panels, shown.quantities, strict=False):
            _panel(panel, shown, quantity)
        for panel in panels[len(shown.quantities) :]:
            panel.set_visible(False)
        drawn.supxlabel("number of classes")
        svg.legend(drawn, keys)
        titles = formats.listing([quantity.title for quantity in shown.quantities])
        return svg.inline(drawn, "sweep", f"Lines of {titles} against the number of classes")


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
    panel.set_ylabel(quantity.unit)
    panel.grid(axis="y")
    panel.locator_params(axis="y", nbins=5)
    panel.margins(y=0.12)


def _star(point: Point, x: Sequence[float], y: Sequence[float]) -> Line2D:
    """The star that marks MefMax's choice, in the plot or (without positions) in the legend."""
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
    for number in sorted(set(classes)):  # labels only ticks that are far enough apart
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
        # two lines of the same division differ in head or objective, which the methods' labels show
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
