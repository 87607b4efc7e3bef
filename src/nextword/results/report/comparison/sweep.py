"""Measures against the number of frequency classes (F2-Softmax, figure 3), as the heads say what classes they have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from nextword.results.records import EvaluationResults, MetricValue, Results
from nextword.results.report.comparison.main_table import in_order
from nextword.results.report.comparison.methods import Method
from nextword.results.report.evaluation.evaluation_table import ARROWS, spread
from nextword.results.report.parts import formats
from nextword.results.report.parts.columns import text_columns
from nextword.results.report.parts.measures import measure

CHOSEN = "mefmax"
"""Name of the division that chooses the number of classes itself."""

PERPLEXITY = "perplexity"

SEARCHES = ("greedy", "beam")
"""How the titles of decodings begin that draw nothing."""

NAMES = ("label", "note")
"""Settings of a method that only say what to call it."""

CLASSES = ("classes", "division")
"""Settings of a head that say how many classes it has, and how they are made."""


@dataclass(frozen=True)
class Reading:
    """A value as it is drawn: a share is a percentage."""

    mean: float
    ends: tuple[float, float] | None
    """Lowest and highest over the seeds, or the 95 % interval of the only one."""


@dataclass(frozen=True)
class Quantity:
    """What one panel shows."""

    title: str
    unit: str
    values: dict[str, Reading]
    """By label of the method."""
    human: float | None


@dataclass(frozen=True)
class Point:
    """A method at its number of classes."""

    classes: int
    method: Method


@dataclass(frozen=True)
class Sweep:
    """Everything the figure draws."""

    decoding: str
    """How the texts were written; empty where only likelihoods are shown."""
    quantities: tuple[Quantity, ...]
    lines: tuple[tuple[str, tuple[Point, ...]], ...]
    """Methods that differ in the number of classes alone, by rising number, under the name of their division."""
    chosen: tuple[Point, ...]
    """Methods whose number of classes was chosen from the frequencies."""
    flat: tuple[Method, ...]
    """Methods without classes."""
    left_out: tuple[str, ...]
    """Labels of methods that share their place on a line with an earlier one."""


def sweep(results: Results, methods: Sequence[Method]) -> Sweep | None:
    """The sweep; None where no division was tried with two numbers of classes, or nothing was measured."""
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


def _facts(method: Method) -> dict[str, object]:
    return next((dict(run.facts) for run in method.runs if run.facts), {})


def _division(method: Method) -> tuple[str, int] | None:
    facts = _facts(method)
    division, classes = facts.get("division"), facts.get("classes")
    if not isinstance(division, str) or not isinstance(classes, int) or isinstance(classes, bool) or classes < 1:
        return None
    return division, classes


def _but_for_classes(method: Method) -> str:
    """All that a method is besides its name and its classes: methods alike in it share a line."""
    settings = method.runs[0].settings.get("method")
    if not isinstance(settings, dict):
        return f"{_without_settings(method.head)} {method.objective}"
    head = settings.get("head")
    head = {"head": _without_settings(head)} if isinstance(head, str) else head
    kept = {name: value for name, value in settings.items() if name not in NAMES}
    rest = {name: value for name, value in head.items() if name not in CLASSES} if isinstance(head, dict) else head
    return json.dumps({**kept, "head": rest}, sort_keys=True)


def _without_settings(head: str) -> str:
    """What is left of a head spec when numbers and divisions are taken out.

    >>> _without_settings("f2:8,eq-token+mi"), _without_settings("f2:32")
    ('f2+mi', 'f2')
    """
    return re.sub(r":[^+]*", "", head)


def _quantities(results: Results, methods: Sequence[Method]) -> tuple[str, list[Quantity]]:
    """Of the texts of the first decoding that samples, else of the first; perplexity also where there are no texts."""
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
        if not column.main:
            continue
        scaled = _scaled(column.measure.unit)
        values = {
            system.name: Reading(scaled(system.values[column.key].value), _both(scaled, spread(system, column.key)))
            for system in texts.systems
            if column.key in system.values
        }
        human = texts.human.values.get(column.key) if texts.human is not None else None
        of_people = scaled(human.value) if human is not None and column.measure.goal == "human" else None
        title = column.measure.title if column.group else column.short
        quantities.append(Quantity(f"{title} {column.arrow}", column.short_unit, values, of_people))
    return [one for one in quantities if one.values]


def _of_runs(methods: Sequence[Method]) -> Quantity | None:
    """Perplexity as every run measured it itself."""
    found: dict[str, list[MetricValue]] = {}
    for method in methods:
        for run in method.runs:
            if PERPLEXITY in run.evaluation.metrics:
                found.setdefault(method.label, []).append(run.evaluation.metrics[PERPLEXITY])
    units = {value.unit for values in found.values() for value in values}
    if len(units) != 1:
        return None
    better = measure(PERPLEXITY).better
    values = {label: Reading(fmean(value.value for value in values), _ends(values)) for label, values in found.items()}
    return Quantity(f"test PPL {ARROWS[better] if better else ''}", units.pop(), values, None)


def _ends(values: Sequence[MetricValue]) -> tuple[float, float] | None:
    if len(values) > 1:
        return min(value.value for value in values), max(value.value for value in values)
    low, high = values[0].low, values[0].high
    return None if low is None or high is None else (low, high)


def _scaled(unit: str) -> Callable[[float], float]:
    return lambda value: value * formats.scale(unit)


def _both(scaled: Callable[[float], float], ends: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if ends is None else (scaled(ends[0]), scaled(ends[1]))
