"""Tables of an evaluation: a row for each metric, a column for each system, and one for the human references."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from nextword.results.records import EvaluationResults, Measure, MetricValue, PairRecord, SampleFile, SystemRecord
from nextword.results.report import formats
from nextword.results.report.table import ARROWS, Block, Cell, Column, ReportTable, Row, best_of

SIGNIFICANT = 0.05
HUMAN = "human"


@dataclass(frozen=True)
class Test:
    """A paired test, with its numbers as text."""

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
    """The better system; empty if the difference is not significant or the metric's goal is not "higher" or "lower"."""


def measure_table(results: EvaluationResults, judged: Collection[str] | None = None) -> ReportTable:
    """All metrics, one row each, grouped in blocks. Each row marks the best of the systems ``judged`` (None: all)."""
    names = [system.name for system in results.systems] + ([HUMAN] if results.human is not None else [])
    groups = groupby(results.measures.items(), key=lambda one: one[1].group)
    blocks = [
        Block(tuple(_row(results, key, measure, judged) for key, measure in members), title)
        for title, members in groups
    ]
    return ReportTable(tuple(Column(name, group=name) for name in names), tuple(blocks), shows_groups=False)


def _row(results: EvaluationResults, key: str, measure: Measure, judged: Collection[str] | None) -> Row:
    values = {system.name: system.values[key].value for system in results.systems if key in system.values}
    judging = {name: value for name, value in values.items() if judged is None or name in judged}
    human = results.human.values.get(key) if results.human is not None else None
    best = best_of(measure.goal, judging, human.value if human else None)
    cells = [_of_system(system, key, measure, system.name in best) for system in results.systems]
    if results.human is not None:
        ends = None if human is None else human.interval
        cells.append(replace(_cell(measure, human, [results.human]), spread=_interval(measure, ends)))
    return Row(
        label=measure.title,
        cells=tuple(cells),
        key=key,
        arrow=ARROWS[measure.goal] if measure.goal else "",
        # without the notes in brackets, which the explanation of the metric has
        below=(formats.unit_name(measure.unit).partition(" (")[0],),
        hover=measure.meaning,
    )


def _of_system(system: SystemRecord, key: str, measure: Measure, best: bool) -> Cell:
    value, seeds = system.values.get(key), [file.values.get(key) for file in system.files]
    shown = tuple(formats.NOTHING if one is None else _number(measure, one.value) for one in seeds)
    cell = _cell(measure, value, system.files, best, shown if len(seeds) > 1 else ())
    return cell if value is None else replace(cell, spread=_interval(measure, spread(system, key)))


def spread(system: SystemRecord, key: str) -> tuple[float, float] | None:
    """Lowest and highest value of metric ``key`` over seeds; with one seed, its 95 % interval; None if missing."""
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
) -> Cell:
    if value is None:
        return Cell(seeds=seeds, below=(" ".join(seeds),))
    samples = sum(file.samples for file in files)
    n = f"n = {formats.plain(value.n)} of {formats.plain(samples)}" if value.n < samples else ""
    text, interval = _number(measure, value.value), _interval(measure, value.interval)
    below = (interval, " ".join(seeds), n)
    return Cell(text, value.value, seeds=seeds, interval=interval, best=best, n=n, below=below)


def _number(measure: Measure, value: float) -> str:
    return formats.value(value, measure.unit, measure.decimals)


def undefined(results: EvaluationResults) -> list[tuple[str, str, dict[str, str]]]:
    """For every file: the system, the file name, and a mapping from each metric without a value to the reason."""
    return [(name, file.file, file.undefined) for name, file in _files(results)]


def notes(results: EvaluationResults) -> list[str]:
    """Notes on values, one line for all metrics of a file that have the same note."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, file in _files(results):
        for key, value in file.values.items():
            if value.note is not None:
                found.setdefault((name, file.file, value.note), []).append(results.measures[key].title)
    return [f"{name} ({file}): {'; '.join(titles)}: {note}" for (name, file, note), titles in found.items()]


def _files(results: EvaluationResults) -> list[tuple[str, SampleFile]]:
    files = [(system.name, file) for system in results.systems for file in system.files]
    return [*files, *([(HUMAN, results.human)] if results.human is not None else [])]


def paired_rows(results: EvaluationResults, keys: Collection[str] | None = None) -> list[Test]:
    """The paired tests of the metrics in ``keys`` (None: all), with their numbers as text."""
    return [_paired(one, results.measures[one.measure]) for one in results.tests if keys is None or one.measure in keys]


def _paired(one: PairRecord, measure: Measure) -> Test:
    signed = partial(formats.signed, unit=measure.unit, decimals=measure.decimals)
    significant, better = one.p_holm < SIGNIFICANT, ""
    # for the goal "human" no system is named: the test does not show which value is closer to the human value
    if significant and measure.goal in ("lower", "higher"):
        better = one.first if (one.difference > 0) == (measure.goal == "higher") else one.second
    return Test(
        title=measure.title,
        unit=formats.unit_name(measure.unit),
        first=one.first,
        second=one.second,
        difference=signed(one.difference),
        interval="" if one.low is None or one.high is None else formats.interval(signed(one.low), signed(one.high)),
        p_bootstrap=formats.p_value(one.p_bootstrap),
        p_permutation=formats.p_value(one.p_permutation),
        p_holm=formats.p_value(one.p_holm),
        significant=significant,
        better=better,
    )


def note_on_tests(results: EvaluationResults) -> str:
    """A note on the number of paired tests, and on what they show."""
    count = len(results.tests)
    expected = SIGNIFICANT * count
    return (
        f"{count} tests: about {expected:.2g} would fall below {SIGNIFICANT} by chance alone, so use the column p "
        "(Holm), the permutation test's p-value corrected for the number of tests. The tests generalise to other "
        "prompts, not to other training seeds: for that, compare seeds."
    )
