"""The numbers of an evaluation as a table: one row a measure, one column a system, the human texts beside them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from nextword.results.records import EvaluationResults, Measure, MetricValue, PairRecord, SampleFile, SystemRecord
from nextword.results.report import formats

SIGNIFICANT = 0.05
HUMAN = "human"

ARROWS = {"higher": "\N{UPWARDS ARROW}", "lower": "\N{DOWNWARDS ARROW}", "human": "\N{RIGHTWARDS ARROW}"}
"""What a goal looks like beside a title; the arrow to the right points at the column of the human texts."""

GOALS = {"higher": "higher is better", "lower": "lower is better", HUMAN: "the closer to people the better"}
"""The same in words."""


@dataclass(frozen=True)
class EvaluationCell:
    """A measure of one system."""

    text: str
    interval: str = ""
    seeds: tuple[str, ...] = ()
    best: bool = False
    n: str = ""
    """Of how many samples the value is, where these are not all."""
    spread: str = ""
    """Lowest and highest value over the seeds, or with one seed the 95 % interval."""
    reason: str = ""
    """Why there is no value, where that is known."""


@dataclass(frozen=True)
class EvaluationRow:
    """A measure."""

    key: str
    measure: Measure
    cells: tuple[EvaluationCell, ...]
    human: EvaluationCell | None

    @property
    def arrow(self) -> str:
        """Which way is good."""
        return ARROWS[self.measure.goal] if self.measure.goal else ""

    @property
    def unit(self) -> str:
        """The unit without what stands in brackets, which is explained once, with the measure."""
        return formats.unit_name(self.measure.unit).partition(" (")[0]


@dataclass(frozen=True)
class Group:
    """Measures under one heading."""

    title: str
    rows: tuple[EvaluationRow, ...]


@dataclass(frozen=True)
class Test:
    """A paired test, as text."""

    title: str
    unit: str
    first: str
    second: str
    difference: str
    interval: str
    p_bootstrap: str
    p_permutation: str
    p_holm: str
    significant: bool
    better: str
    """The better of the two, where the measure is better lower or higher and the difference holds; else empty."""


def grouped(results: EvaluationResults, judged: Collection[str] | None = None) -> list[Group]:
    """All measures, under their headings; of the systems in ``judged`` (None: all) one may be the best."""
    rows = [_row(results, key, measure, judged) for key, measure in results.measures.items()]
    return [Group(title, tuple(members)) for title, members in groupby(rows, key=lambda row: row.measure.group)]


def _row(results: EvaluationResults, key: str, measure: Measure, judged: Collection[str] | None) -> EvaluationRow:
    human = results.human.values.get(key) if results.human is not None else None
    values = {system.name: system.values[key] for system in results.systems if key in system.values}
    judging = {name: value.value for name, value in values.items() if judged is None or name in judged}
    best = best_of(measure, judging, human.value if human else None)
    cells = [_of_system(system, key, measure, system.name in best) for system in results.systems]
    of_humans = None
    if results.human is not None:
        ends = None if human is None else human.interval
        of_humans = replace(_cell(measure, human, [results.human]), spread=_interval(measure, ends))
    return EvaluationRow(key, measure, tuple(cells), of_humans)


def _of_system(system: SystemRecord, key: str, measure: Measure, best: bool) -> EvaluationCell:
    value, seeds = system.values.get(key), [file.values.get(key) for file in system.files]
    shown = tuple(formats.NOTHING if one is None else _number(measure, one.value) for one in seeds)
    cell = _cell(measure, value, system.files, best, shown if len(seeds) > 1 else ())
    return cell if value is None else replace(cell, spread=_interval(measure, spread(system, key)))


def spread(system: SystemRecord, key: str) -> tuple[float, float] | None:
    """Lowest and highest value over the seeds, or with one seed its 95 % interval; None where there is neither."""
    if len(system.files) == 1:
        return system.values[key].interval if key in system.values else None
    found = [file.values[key].value for file in system.files if key in file.values]
    return (min(found), max(found)) if found else None


def _interval(measure: Measure, ends: tuple[float, float] | None) -> str:
    return "" if ends is None else formats.interval(*(_number(measure, end) for end in ends))


def _cell(
    measure: Measure,
    value: MetricValue | None,
    files: Sequence[SampleFile],
    best: bool = False,
    seeds: tuple[str, ...] = (),
) -> EvaluationCell:
    if value is None:
        return EvaluationCell(formats.NOTHING, seeds=seeds)
    samples = sum(file.samples for file in files)
    n = f"{formats.plain(value.n)} of {formats.plain(samples)}" if value.n < samples else ""
    return EvaluationCell(_number(measure, value.value), _interval(measure, value.interval), seeds, best, n)


def _number(measure: Measure, value: float) -> str:
    return formats.value(value, measure.unit, measure.decimals)


def undefined(results: EvaluationResults) -> list[tuple[str, str, dict[str, str]]]:
    """Every file, people's last: system, name, and the metrics without a value with the reason."""
    return [(name, file.file, file.undefined) for name, file in _files(results)]


def notes(results: EvaluationResults) -> list[str]:
    """What a reader must know of single values, in one line for all measures of a file that have the same note."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, file in _files(results):
        for key, value in file.values.items():
            if value.note is not None:
                found.setdefault((name, file.file, value.note), []).append(results.measures[key].title)
    return [f"{name} ({file}): {'; '.join(titles)}: {note}" for (name, file, note), titles in found.items()]


def _files(results: EvaluationResults) -> list[tuple[str, SampleFile]]:
    files = [(system.name, file) for system in results.systems for file in system.files]
    return [*files, *([(HUMAN, results.human)] if results.human is not None else [])]


def best_of(measure: Measure, values: Mapping[str, float], human: float | None) -> set[str]:
    """The systems with the best value; none with fewer than two systems, all alike, or no goal."""
    if measure.goal is None or len(values) < 2 or (measure.goal == "human" and human is None):
        return set()
    if measure.goal == "human" and human is not None:
        costs = {name: abs(value - human) for name, value in values.items()}
    else:
        costs = {name: value if measure.goal == "lower" else -value for name, value in values.items()}
    least = min(costs.values())
    found = {name for name, cost in costs.items() if math.isclose(cost, least, rel_tol=1e-9, abs_tol=1e-12)}
    return set() if len(found) == len(values) else found


def paired_rows(results: EvaluationResults, keys: Collection[str] | None = None) -> list[Test]:
    """The paired tests, of some measures or of all."""
    return [_paired(one, results.measures[one.measure]) for one in results.tests if keys is None or one.measure in keys]


def _paired(one: PairRecord, measure: Measure) -> Test:
    signed = partial(formats.signed, unit=measure.unit, decimals=measure.decimals)
    significant, better = one.p_holm < SIGNIFICANT, ""
    # which of two different ones is nearer to people's value is not tested
    if significant and measure.goal in ("lower", "higher"):
        better = one.first if (one.difference > 0) == (measure.goal == "higher") else one.second
    return Test(
        title=measure.title,
        unit=formats.unit_name(measure.unit),
        first=one.first,
        second=one.second,
        difference=signed(one.difference),
        interval="" if one.low is None or one.high is None else formats.interval(signed(one.low), signed(one.high)),
        p_bootstrap=p_value(one.p_bootstrap),
        p_permutation=p_value(one.p_permutation),
        p_holm=p_value(one.p_holm),
        significant=significant,
        better=better,
    )


def p_value(p: float) -> str:
    """A p-value with two digits.

    >>> p_value(0.5), p_value(0.0312), p_value(0.00012)
    ('0.50', '0.031', '0.0001')
    """
    return f"{p:.2f}" if p >= 0.1 else f"{p:.3f}" if p >= 0.001 else f"{p:.4f}"


def note_on_tests(results: EvaluationResults) -> str:
    """What a reader must know about so many tests."""
    count = len(results.tests)
    expected = SIGNIFICANT * count
    return (
        f"{count} tests: of so many, about {expected:.2g} would fall below {SIGNIFICANT} by chance alone, so read the "
        f"column p (Holm), which is corrected for their number. They ask whether other prompts like these would show "
        "the difference, not whether training again would: for that, compare seeds."
    )
