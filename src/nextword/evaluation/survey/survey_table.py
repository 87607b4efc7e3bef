"""What judges handed back to a record of every value, interval, test and agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from nextword.evaluation.metrics.statistics import RESAMPLES, Statistic, paired_tests
from nextword.evaluation.survey.kinds import Kind, registry
from nextword.evaluation.survey.kinds.kind import ONE_TEXT, AnswerMeasure, Judgements
from nextword.evaluation.survey.outputs import KEY, SURVEY
from nextword.evaluation.survey.read_answers import Counted, CountedUnit, counted, read_answers
from nextword.evaluation.survey.statistics import (
    Crossing,
    TwoLevels,
    alpha,
    coded,
    correlations,
    percent_agreement,
    two_level_intervals,
)
from nextword.evaluation.system_statistics import pair_records
from nextword.results.records import Environment, EvaluationResults, MetricValue, PairRecord, SampleFile, SystemRecord
from nextword.results.records.survey_files import Agreement, Question, Survey, SurveyKey, SurveyResults, WinTieLose

Levels = dict[str, dict[str, TwoLevels]]
"""By measure and system."""


def survey_results(
    folder: str | Path,
    answers: Sequence[str | Path],
    automatic: str | Path | None = None,
    resamples: int = RESAMPLES,
    command: str = "",
) -> SurveyResults:
    """The results of a survey.

    ``folder`` is where ``make`` wrote it, with the key, ``answers`` are files that judges or platforms handed back, and
    ``automatic`` is ``results.json`` of ``nextword evaluate`` on the same systems.

    Raises:
        ValueError: No survey or key there, no answer that counts, or a missing package.
    """
    survey, key = Survey.load(Path(folder) / SURVEY), SurveyKey.load(Path(folder) / KEY)
    handed, unread = read_answers([Path(path) for path in answers], survey)
    found = counted(survey, key, handed)
    found.left_out[:0] = unread
    if not found.units:
        why = "; ".join(found.left_out[:5]) or "no file given"
        raise ValueError(
            f"answers: must have some that count ({why}); give files that judges of this survey handed back"
        )
    kind = registry.get(survey.asks)
    scored = _scored(survey, found, kind(kind.Config()))
    judged = _judged(survey, key, _rows(found.units, found), scored, resamples, command)
    linked = ([], None) if automatic is None else correlations(judged, EvaluationResults.load(automatic))
    return SurveyResults(
        asks=survey.asks,
        title=survey.title,
        survey=survey.id,
        judged=judged,
        duels=_duels(survey, judged),
        agreement=[_agreement(question, found.units) for question in survey.questions],
        judges=found.judges,
        marked=_marked(survey, found, resamples),
        left_out=found.left_out,
        correlations=linked[0],
        uncorrelated=linked[1],
    )


def _rows(units: Sequence[CountedUnit], found: Counted) -> Crossing:
    items = {name: at for at, name in enumerate(dict.fromkeys(one.item for one in found.units))}
    judges = {name: at for at, name in enumerate(dict.fromkeys(one.judge for one in found.units))}
    return Crossing(np.array([items[one.item] for one in units]), np.array([judges[one.judge] for one in units]))


def _scored(survey: Survey, found: Counted, kind: Kind) -> list[AnswerMeasure]:
    scored: list[AnswerMeasure] = []
    for question in survey.questions:
        units = [one for one in found.units if question.name in one.said.answers]
        rows = _rows(units, found)
        values = [one.said.answers[question.name] for one in units]
        judged = Judgements(values, [one.writers for one in units], rows.items, rows.judges)
        scored += kind.scored(question, judged)
    return scored


def _judged(
    survey: Survey, key: SurveyKey, crossing: Crossing, scored: list[AnswerMeasure], resamples: int, command: str
) -> EvaluationResults:
    levels: Levels = {
        one.key: {
            name: crossing.levels(Statistic.mean(scores.values), scores.items, scores.judges)
            for name, scores in one.systems.items()
        }
        for one in scored
    }
    flat = [level for one in levels.values() for level in one.values()]
    intervals = iter(two_level_intervals(flat, resamples))
    values: dict[str, dict[str, MetricValue]] = {}
    for one in scored:
        for name, scores in one.systems.items():
            values.setdefault(name, {})[one.key] = _value(
                levels[one.key][name].value, one.measure.unit, len(scores.values), next(intervals)
            )
    files = {one.system: one for one in key.files}
    systems = [
        SystemRecord(
            name=name,
            files=[
                SampleFile(
                    file=files[name].file if name in files else "references",
                    sha256=files[name].sha256 if name in files else "",
                    samples=len(survey.items) - len(key.checks),
                    values=values[name],
                )
            ],
            values=values[name],
        )
        for name in sorted(values, key=[*files, *sorted(values)].index)
    ]
    return EvaluationResults(
        command=command, unit="answers of people", measures={one.key: one.measure for one in scored}, systems=systems,
        human=None, left_out={}, tests=_tests(scored, levels, [one.name for one in systems], resamples),
        untested=None, wins=None, settings={"asks": survey.asks, "resamples": resamples, "survey": survey.id},
        environment=Environment.collect(),
    )  # fmt: skip


def _value(value: float, unit: str, n: int, interval: tuple[float, float] | None) -> MetricValue:
    low, high = (None, None) if interval is None else _possible(interval, unit, least=0.0)
    return MetricValue(value=value, unit=unit, n=n, low=low, high=high)


def _possible(interval: tuple[float, float], unit: str, least: float) -> tuple[float, float]:
    """Of shares, and with ``least`` of -1 of their differences, the part of an interval that there can be."""
    low, high = interval
    return (max(low, least), min(high, 1.0)) if unit.startswith("share") else interval


def _tests(scored: list[AnswerMeasure], levels: Levels, names: list[str], resamples: int) -> list[PairRecord]:
    """Every two systems in every measure: interval over items and judges, tests over items."""
    pairs = [
        (one.key, first, second)
        for one in scored
        if one.tested
        for first, second in combinations(names, 2)
        if first in one.systems and second in one.systems
    ]
    one = [levels[key][first] for key, first, _ in pairs]
    other = [levels[key][second] for key, _, second in pairs]
    intervals = two_level_intervals([a.less(b) for a, b in zip(one, other, strict=True)], resamples)
    tests = paired_tests([a.items for a in one], [b.items for b in other], resamples)
    units = {each.key: each.measure.unit for each in scored}
    found = []
    for pair, test, interval in zip(pairs, tests, intervals, strict=True):
        if test is not None:
            ends = None if interval is None else _possible(interval, units[pair[0]], least=-1.0)
            found.append((*pair, replace(test, interval=ends)))
    return pair_records(found)


def _duels(survey: Survey, judged: EvaluationResults) -> list[WinTieLose]:
    """Win, tie, lose where a question was about two texts at once."""
    if not any(len(unit.texts) > 1 for item in survey.items for unit in item.units):
        return []
    first, second = judged.systems[0], judged.systems[1]
    return [
        WinTieLose(
            question=question.name, first=first.name, second=second.name,
            win=first.values[question.name], tie=first.values[f"{question.name}-same"],
            lose=second.values[question.name],
        )
        for question in survey.questions
        if question.name in first.values
    ]  # fmt: skip


def _agreement(question: Question, units: Sequence[CountedUnit]) -> Agreement:
    answers = [
        (one.judge, (one.item, one.unit), one.said.answers[question.name])
        for one in units
        if question.name in one.said.answers
    ]
    values = [choice.value for choice in question.choices]
    tables = {level: coded(answers, values, level) for level in question.levels}
    first = next(iter(tables.values()))
    return Agreement(
        question=question.name,
        alpha={level: alpha(table, level) for level, table in tables.items()},
        percent=percent_agreement(first),
        units=int(((~np.isnan(first)).sum(axis=0) > 1).sum()),
    )


def _marked(survey: Survey, found: Counted, resamples: int) -> dict[str, MetricValue]:
    """Share of words that judges marked, by system."""
    if survey.marking is None:
        return {}
    texts = {(item.id, unit.id): "\n".join(unit.texts[-1].lines) for item in survey.items for unit in item.units}
    units = [one for one in found.units if survey.marking.question in one.said.answers]
    counts = np.array([_words(texts[one.item, one.unit], one.said.marks) for one in units], dtype=np.float64)
    rows, crossing = _rows(units, found), _rows(found.units, found)
    shares = {}
    for system in dict.fromkeys(one.writers[ONE_TEXT] for one in units):
        of = np.array([one.writers[ONE_TEXT] == system for one in units])
        statistic = Statistic.ratio(counts[of, 0], counts[of, 1])
        level = crossing.levels(statistic, rows.items[of], rows.judges[of])
        (interval,) = two_level_intervals([level], resamples)
        shares[system] = _value(level.value, "share of words", int(of.sum()), interval)
    return shares


def _words(text: str, marks: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Words that a mark touches, and words."""
    place = marked = total = 0
    for word in text.split():
        place = text.index(word, place)
        total += 1
        marked += any(start < place + len(word) and end > place for start, end in marks)
        place += len(word)
    return marked, total
