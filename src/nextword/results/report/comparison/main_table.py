"""Tables of text metrics as in papers, with one row per method and the human row last."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean

from nextword.results.records import WITH_PROMPT, EvaluationResults, MetricValue, Results, SampleFile
from nextword.results.report import formats
from nextword.results.report.columns import layout_of, text_columns
from nextword.results.report.comparison.methods import ReportedMethod, Style
from nextword.results.report.evaluation_table import HUMAN, measure_table, spread
from nextword.results.report.table import ARROWS, Block, Cell, Column, ReportTable, Row

MOST = 13
"""Maximum columns of a table, as in the widest table of the papers."""

GREEDY = "greedy"
"""Title of the decoding that is shown first."""


@dataclass(frozen=True)
class Sheet:
    """Metrics of the texts of one decoding; the table has two blocks if there are texts without and with a prompt."""

    title: str
    decodings: tuple[str, ...]
    table: ReportTable

    @property
    def parts(self) -> list[ReportTable]:
        """The table, split into tables of at most ``MOST`` columns. Columns of a heading stay together if they fit."""
        joints = [0]
        for name, span in self.table.headings:
            widths = [span] if name and span <= MOST else [1] * span
            joints += accumulate(widths, initial=joints[-1])
        return self.table.cut(joints[1:], lambda first, last: last - first <= MOST)

    @property
    def several(self) -> bool:
        """Whether any method has values for several seeds."""
        return any(cell.seeds for row in self.table.rows for cell in row.cells)

    @property
    def human(self) -> bool:
        """Whether there is a human row."""
        return any(block.human is not None for block in self.table.blocks)


def in_order(results: Results) -> list[tuple[str, EvaluationResults]]:
    """Return each decoding's title and evaluation, greedy decoding first.

    The evaluation without a prompt comes before that of the same decoding with a prompt.
    """
    return [one for members in _ways(results).values() for one in members]


def sheets(results: Results, methods: Sequence[ReportedMethod]) -> list[Sheet]:
    """The tables of all decodings, greedy first. Empty if no texts were generated."""
    styles = {method.label: method.style for method in methods}
    return [_sheet(title, members, styles, len(results.seeds)) for title, members in _ways(results).items()]


def _ways(results: Results) -> dict[str, list[tuple[str, EvaluationResults]]]:
    """Group decodings that differ only by the prompt, under their common title."""
    found: dict[str, list[tuple[str, EvaluationResults]]] = {}
    for title, texts in results.texts.items():
        found.setdefault(title.removesuffix(WITH_PROMPT), []).append((title, texts))
    first_greedy = sorted(found, key=lambda title: title != GREEDY)  # the sort keeps the order of all others
    return {title: sorted(found[title], key=lambda member: _prompted(member[0])) for title in first_greedy}


def _prompted(decoding: str) -> bool:
    return decoding.endswith(WITH_PROMPT)


def _sheet(
    title: str, members: Sequence[tuple[str, EvaluationResults]], styles: Mapping[str, Style], seeds: int
) -> Sheet:
    measures = {key: measure for _, texts in members for key, measure in texts.measures.items()}
    layout = layout_of(measures)
    columns = layout.columns(measures)
    alone = len(members) == 1
    blocks = [
        Block(
            rows=tuple(_rows(texts, columns, styles, seeds)),
            title="" if alone else "with prompt" if _prompted(name) else "without prompt",
            human=_human(texts, columns) if layout.people else None,
        )
        for name, texts in members
    ]
    table = ReportTable(tuple(columns), tuple(blocks), shows_groups=any(column.group for column in columns))
    decodings = tuple(name for name, _ in members)
    return Sheet(decodings[0] if alone else title, decodings, table)


def whole_systems(texts: EvaluationResults, seeds: int) -> set[str]:
    """Names of the systems with texts of at least ``seeds`` trained models."""
    return {system.name for system in texts.systems if len(system.models) >= seeds}


def _rows(
    texts: EvaluationResults, columns: Sequence[Column], styles: Mapping[str, Style], seeds: int
) -> Iterator[Row]:
    whole = whole_systems(texts, seeds)
    measured = {row.key: row.cells for row in measure_table(texts, judged=whole).rows}
    for place, system in enumerate(texts.systems):
        found = {key: cells[place] for key, cells in measured.items()}
        yield Row(
            label=system.name,
            cells=_cells(found, columns, system.files),
            style=styles.get(system.name),
            lacking="" if system.name in whole else f"{len(system.models)} of {seeds} seeds",
        )


def _human(texts: EvaluationResults, columns: Sequence[Column]) -> Row | None:
    if texts.human is None:
        return None
    found = {row.key: row.cells[-1] for row in measure_table(texts).rows}
    return Row(HUMAN, _cells(found, columns, [texts.human]))


def _cells(found: Mapping[str, Cell], columns: Sequence[Column], files: Collection[SampleFile]) -> tuple[Cell, ...]:
    """One cell per column. A cell without a value has the reason."""
    # a metric may have values only in the other block of the table
    cells = [found.get(column.key, Cell()) for column in columns]
    return tuple(
        replace(
            cell,
            reason=_reason(column, files) if cell.text == formats.NOTHING else "",
            hover=cell.n,
            below=(cell.spread,),
        )
        for column, cell in zip(columns, cells, strict=True)
    )


def _reason(column: Column, files: Collection[SampleFile]) -> str:
    lacking = [file for file in files if column.key not in file.values]
    reasons = [
        reason
        for file in lacking
        for metric, reason in file.undefined.items()
        if metric == column.metric or (not column.metric and column.key.startswith(metric))
    ]
    why = "; ".join(dict.fromkeys(reasons))
    return why if not why or len(lacking) == len(files) else f"{len(lacking)} of {len(files)} seeds: {why}"


# -- Metrics by number of frequency classes (F2-Softmax, figure 3). The heads' settings say which classes they have.

CHOSEN = "mefmax"
"""Name of the division of tokens into classes that chooses the number of classes itself."""

PERPLEXITY = "perplexity"

SEARCHES = ("greedy", "beam")
"""Beginnings of the titles of decodings without sampling."""

NAMES = ("label", "note")
"""Settings of a method that affect only its name."""

CLASSES = ("classes", "division")
"""Settings of a head for the number of its classes and their division."""


@dataclass(frozen=True)
class TableReading:
    """A value in a figure. A fraction is shown as a percentage."""

    mean: float
    ends: tuple[float, float] | None
    """Lowest and highest value over seeds, or the 95 % interval of a single seed."""


@dataclass(frozen=True)
class Quantity:
    """The data of one panel of a figure: a metric's value for each method."""

    title: str
    unit: str
    values: dict[str, TableReading]
    """Values by the method's label."""
    human: float | None


@dataclass(frozen=True)
class Point:
    """A method with its number of classes."""

    classes: int
    method: ReportedMethod


@dataclass(frozen=True)
class Sweep:
    """The data of the figure that shows metrics for different numbers of token classes (``f2``)."""

    decoding: str
    """Title of the decoding. Empty if the figure shows only likelihoods."""
    quantities: tuple[Quantity, ...]
    lines: tuple[tuple[str, tuple[Point, ...]], ...]
    """Each line has the name of a division of the tokens into classes, and methods with this division that differ only
    in the number of classes, which ascends."""
    chosen: tuple[Point, ...]
    """Methods for which MefMax chose the number of classes."""
    flat: tuple[ReportedMethod, ...]
    """Methods without classes."""
    left_out: tuple[str, ...]
    """Labels of methods that are not in the figure, because an earlier method has the same point of a line."""


def sweep(results: Results, methods: Sequence[ReportedMethod]) -> Sweep | None:
    """Return the data for ``class_sweep``.

    None if there are no values, or if no division of the tokens into classes occurs with several numbers of classes.
    """
    divided = [(found[0], Point(found[1], method)) for method in methods if (found := _division(method)) is not None]
    numbers: dict[str, set[int]] = {}
    for division, point in divided:
        numbers.setdefault(division, set()).add(point.classes)
    if not any(len(found) > 1 for found in numbers.values()):
        return None
    lines: dict[tuple[str, str], dict[int, Point]] = {}
    left_out = []
    for division, point in divided:
        if division == CHOSEN:
            continue
        line = lines.setdefault((division, _but_for_classes(point.method)), {})
        if line.setdefault(point.classes, point) is not point:
            left_out.append(point.method.label)
    decoding, quantities = _quantities(results, methods)
    if not quantities:
        return None
    return Sweep(
        decoding=decoding,
        quantities=tuple(quantities),
        lines=tuple(
            (division, tuple(line[classes] for classes in sorted(line))) for (division, _), line in lines.items()
        ),
        chosen=tuple(point for division, point in divided if division == CHOSEN),
        flat=tuple(method for method in methods if "classes" not in _facts(method)),
        left_out=tuple(left_out),
    )


def _facts(method: ReportedMethod) -> dict[str, object]:
    return next((dict(run.facts) for run in method.runs if run.facts), {})


def _division(method: ReportedMethod) -> tuple[str, int] | None:
    facts = _facts(method)
    division, classes = facts.get("division"), facts.get("classes")
    if not isinstance(division, str) or not isinstance(classes, int) or isinstance(classes, bool) or classes < 1:
        return None
    return division, classes


def _but_for_classes(method: ReportedMethod) -> str:
    """Settings of a method without its name and classes. Methods with equal settings share a line."""
    settings = method.runs[0].settings.get("method")
    if not isinstance(settings, dict):
        return f"{_without_settings(method.head)} {method.objective}"
    head = settings.get("head")
    head = {"head": _without_settings(head)} if isinstance(head, str) else head
    kept = {name: value for name, value in settings.items() if name not in NAMES}
    rest = {name: value for name, value in head.items() if name not in CLASSES} if isinstance(head, dict) else head
    return json.dumps({**kept, "head": rest}, sort_keys=True)


def _without_settings(head: str) -> str:
    """A head spec without numbers and divisions of classes.

    >>> _without_settings("f2:8,eq-token+mi"), _without_settings("f2:32")
    ('f2+mi', 'f2')
    """
    return re.sub(r":[^+]*", "", head)


def _quantities(results: Results, methods: Sequence[ReportedMethod]) -> tuple[str, list[Quantity]]:
    """Values of the first sampling decoding, or of the first decoding if none samples. Perplexity needs no texts."""
    decodings = in_order(results)
    decoding, texts = next(
        (one for one in decodings if not one[0].startswith(SEARCHES)), decodings[0] if decodings else ("", None)
    )
    found = [] if texts is None else _of_texts(texts)
    if texts is None or PERPLEXITY not in texts.measures:
        of_runs = _of_runs(methods)
        found = [*([of_runs] if of_runs is not None else []), *found]
    return decoding, found


def _of_texts(texts: EvaluationResults) -> list[Quantity]:
    quantities = []
    for column in text_columns(texts.measures):
        measure = texts.measures[column.key]
        if not column.main:
            continue
        scale, values = formats.scale(measure.unit), {}
        for system in texts.systems:
            if column.key in system.values:
                ends = spread(system, column.key)
                scaled = None if ends is None else (ends[0] * scale, ends[1] * scale)
                values[system.name] = TableReading(system.values[column.key].value * scale, scaled)
        human = texts.human.values.get(column.key) if texts.human is not None else None
        of_people = human.value * scale if human is not None and measure.goal == "human" else None
        title = measure.title if column.group else column.short
        quantities.append(Quantity(f"{title} {column.arrow}", column.short_unit, values, of_people))
    return [one for one in quantities if one.values]


def _of_runs(methods: Sequence[ReportedMethod]) -> Quantity | None:
    # the perplexity that each run measured
    found: dict[str, list[MetricValue]] = {}
    for method in methods:
        for run in method.runs:
            if PERPLEXITY in run.evaluation.metrics:
                found.setdefault(method.label, []).append(run.evaluation.metrics[PERPLEXITY])
    units = {value.unit for values in found.values() for value in values}
    if len(units) != 1:
        return None
    better = methods[0].measures[PERPLEXITY].goal
    values = {
        label: TableReading(fmean(value.value for value in values), _ends(values)) for label, values in found.items()
    }
    return Quantity(f"test PPL {ARROWS[better] if better else ''}", units.pop(), values, None)


def _ends(values: Sequence[MetricValue]) -> tuple[float, float] | None:
    if len(values) > 1:
        return min(value.value for value in values), max(value.value for value in values)
    return values[0].interval
