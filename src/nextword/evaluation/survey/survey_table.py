"""Computes results from judges' answers: values, intervals, tests and agreement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from nextword.evaluation.metrics.statistics import (
    CONFIDENCE,
    RESAMPLES,
    Interval,
    Statistic,
    bootstrap_values,
    paired_tests,
)
from nextword.evaluation.survey.kinds import Kind, registry
from nextword.evaluation.survey.kinds.kind import ONE_TEXT, AnswerMeasure, Judgements
from nextword.evaluation.survey.kinds.rating import REFERENCE
from nextword.evaluation.survey.outputs import KEY, SURVEY
from nextword.evaluation.survey.read_answers import Counted, CountedUnit, counted, read_answers
from nextword.evaluation.system_statistics import pair_records
from nextword.results.records import Environment, EvaluationResults, MetricValue, PairRecord, SampleFile, SystemRecord
from nextword.results.records.survey_files import (
    Agreement,
    Correlation,
    Level,
    Question,
    Survey,
    SurveyKey,
    SurveyResults,
    WinTieLose,
)
from nextword.runtime import optional_libraries as extras

# -- Intervals of values that depend on both items and judges: with other items or judges the values would differ.


@dataclass(frozen=True)
class TwoLevels:
    """A ``Statistic`` of answers, with ``parts`` summed per item, per judge, and per pair of item and judge (cell)."""

    items: Statistic
    judges: Statistic
    cells: Statistic

    @property
    def value(self) -> float:
        """The value over all answers."""
        return self.items.value

    def less(self, other: TwoLevels) -> TwoLevels:
        """This statistic minus ``other``, which has the same items and judges."""
        return TwoLevels(
            _less(self.items, other.items), _less(self.judges, other.judges), _less(self.cells, other.cells)
        )


@dataclass(frozen=True)
class Crossing:
    """The item and the judge of each of N answers, numbered from 0. Results of ``levels`` can be subtracted."""

    items: Int[np.ndarray, "N"]
    judges: Int[np.ndarray, "N"]

    def levels(
        self,
        statistic: Statistic,
        items: Int[np.ndarray, "M"] | None = None,
        judges: Int[np.ndarray, "M"] | None = None,
    ) -> TwoLevels:
        """Make ``TwoLevels`` from ``statistic``, ``items`` and ``judges`` of M answers. None: those of all N."""
        items, judges = self.items if items is None else items, self.judges if judges is None else judges
        number_of_items, number_of_judges = int(self.items.max()) + 1, int(self.judges.max()) + 1
        cells = np.unique(self.items * number_of_judges + self.judges)
        cell = np.searchsorted(cells, items * number_of_judges + judges)
        groups = ((items, number_of_items), (judges, number_of_judges), (cell, len(cells)))
        return TwoLevels(*(replace(statistic, parts=_summed(statistic.parts, *group)) for group in groups))


def two_level_intervals(
    values: Sequence[TwoLevels], resamples: int = RESAMPLES, seed: int = 0, confidence: float = CONFIDENCE
) -> list[Interval]:
    """For each of ``values``, a confidence interval that generalises to other items and other judges.

    Items, judges, and pairs of item and judge are resampled separately, with replacement. V_items, V_judges and V_pairs
    are the variances of the value over these resamples, each times G / (G - 1) for G items, judges or pairs. V_items
    and V_judges both contain the noise of single answers, so the interval has the variance V_items + V_judges - V_pairs
    (Cameron, Gelbach & Miller, 2011), or V_items or V_judges if one of these is larger. The value on a resample of
    items and the value on a resample of judges deviate from the value on all answers. The ends of the interval are
    quantiles of the sum of the two deviations, scaled to this variance, and by the ratio of the quantiles of Student's
    t (Satterthwaite's degrees of freedom) and the normal distribution. With one judge, only items are resampled. With
    few judges who do not differ at all, the interval is too wide: its coverage is up to 98 %.

    Returns:
        Lower and upper end. None with fewer than two items, or if 1 % or more of the resamples have no value.
    """
    if not values or len(values[0].items.parts) < 2:
        return [None for _ in values]
    items = bootstrap_values([one.items for one in values], resamples, seed)
    if len(values[0].judges.parts) > 1:
        judges = bootstrap_values([one.judges for one in values], resamples, seed + 1)
        cells = bootstrap_values([one.cells for one in values], resamples, seed + 2)
    else:
        judges = cells = np.tile(np.array([[one.value] for one in values]), (1, resamples))
    sizes = tuple(len(level.parts) for level in (values[0].items, values[0].judges, values[0].cells))
    return [
        _interval(one.value, (items[at], judges[at], cells[at]), sizes, confidence) for at, one in enumerate(values)
    ]


def _interval(
    value: float,
    draws: tuple[Float[np.ndarray, "R"], Float[np.ndarray, "R"], Float[np.ndarray, "R"]],
    sizes: tuple[int, ...],
    confidence: float,
) -> Interval:
    from scipy.stats import norm, t

    if not np.isfinite(value) or not all(np.isfinite(one).mean() > 0.99 for one in draws):
        return None
    deviations = [np.where(np.isfinite(one), one - value, 0.0) for one in draws]
    # factor G / (G - 1), because the bootstrap variance of G groups divides by G instead of G - 1
    of_items, of_judges, of_cells = (
        float(np.mean(deviation**2)) * size / max(size - 1, 1)
        for deviation, size in zip(deviations, sizes, strict=True)
    )
    together = of_items + of_judges
    if together == 0:
        return value, value
    variance = max(together - of_cells, of_items, of_judges)
    freedom = variance**2 / (of_items**2 / (sizes[0] - 1) + of_judges**2 / max(sizes[1] - 1, 1))
    tail = (1 + confidence) / 2
    drawn = deviations[0] + deviations[1]
    scale = np.sqrt(variance / np.mean(drawn**2)) * t.ppf(tail, freedom) / norm.ppf(tail)
    low, high = np.quantile(drawn, [1 - tail, tail]) * scale
    return value + float(low), value + float(high)


def _summed(parts: Float[np.ndarray, "M K"], groups: Int[np.ndarray, "M"], size: int) -> Float[np.ndarray, "G K"]:
    sums = np.zeros((size, parts.shape[1]))
    np.add.at(sums, groups, parts)
    return sums


def _less(first: Statistic, second: Statistic) -> Statistic:
    width = first.parts.shape[1]
    return Statistic(
        np.concatenate([first.parts, second.parts], axis=1),
        lambda totals: first.combine(totals[..., :width]) - second.combine(totals[..., width:]),
    )


# -- Agreement of judges: Krippendorff's alpha, and the share of pairs of judges with the same answer.


def alpha(codes: Float[np.ndarray, "J U"], level: Level) -> float | None:
    """Krippendorff's alpha (Krippendorff, 2004, ch. 11), computed with the package ``krippendorff``.

    ``codes`` (judges, units) are the answers as numbers on the scale ``level``, with NaN if a judge did not answer.

    Returns:
        1 for perfect agreement, 0 for chance agreement. None if no unit has two answers, or all such answers are equal.

    Raises:
        ValueError: If the package is missing.
    """
    if extras.missing(["krippendorff"]):
        raise ValueError(f"agreement: must have the package krippendorff (missing); {extras.install('survey')}")
    import krippendorff

    twice = codes[:, (~np.isnan(codes)).sum(axis=0) > 1]
    if len(np.unique(twice[~np.isnan(twice)])) < 2:
        return None
    return float(krippendorff.alpha(reliability_data=twice, level_of_measurement=level))


def percent_agreement(codes: Float[np.ndarray, "J U"]) -> float | None:
    """Share of equal pairs among all pairs of answers (``codes``) about the same unit. None if no unit has two answers.

    >>> percent_agreement(np.array([[1.0, 2.0, np.nan], [1.0, 3.0, 2.0], [1.0, 3.0, np.nan]]))
    0.6666666666666666
    """
    same = pairs = 0.0
    for column in codes.T:
        known = column[~np.isnan(column)]
        counts = np.unique(known, return_counts=True)[1]
        same += float((counts * (counts - 1)).sum())
        pairs += len(known) * (len(known) - 1)
    return same / pairs if pairs else None


def coded(
    answers: Sequence[tuple[str, tuple[str, str], str]], values: Sequence[str], level: Level
) -> Float[np.ndarray, "J U"]:
    """Convert ``answers``, given as (judge, unit, value), to an array (judges, units), with NaN for missing answers.

    ``values`` are the question's possible answers, in order. A value is replaced by its index in ``values`` or, with
    the ``level`` "interval", read as a number.
    """
    judges = {name: at for at, name in enumerate(dict.fromkeys(judge for judge, _, _ in answers))}
    units = {name: at for at, name in enumerate(dict.fromkeys(unit for _, unit, _ in answers))}
    numbers = {value: float(value) if level == "interval" else float(at) for at, value in enumerate(values)}
    table = np.full((len(judges), len(units)), np.nan)
    for judge, unit, value in answers:
        table[judges[judge], units[unit]] = numbers[value]
    return table


# -- Whether automatic metrics order systems as judges do.

FEWEST = 3
"""Minimum number of systems for a correlation."""


def correlations(people: EvaluationResults, automatic: EvaluationResults) -> tuple[list[Correlation], str | None]:
    """Correlate the judges' measures (``people``) with ``automatic`` measures over their common systems, found by name.

    If judges also rated the references, these count as a further system, with the measures in ``automatic.human``.

    Returns:
        The correlations of each human measure with each automatic measure that ``FEWEST`` or more systems have, or the
        reason why there are none.
    """
    # gives the human references the name that they have in a survey
    measured = {} if automatic.human is None else {REFERENCE: automatic.human.values}
    measured |= {one.name: one.values for one in automatic.systems}
    common = [one.name for one in people.systems if one.name in measured]
    if len(common) < FEWEST:
        return [], (
            f"{len(common)} systems have both measures ({', '.join(common) or 'none'}): a correlation needs {FEWEST} "
            "or more systems with the same names"
        )
    return list(_each(people, automatic, measured, common)), None


def _each(
    people: EvaluationResults,
    automatic: EvaluationResults,
    measured: dict[str, dict[str, MetricValue]],
    common: list[str],
) -> Iterator[Correlation]:
    from scipy.stats import kendalltau, pearsonr, spearmanr

    said = {one.name: one.values for one in people.systems}
    for key in people.measures:
        for other, measure in automatic.measures.items():
            names = [name for name in common if key in said[name] and other in measured[name]]
            if len(names) < FEWEST:
                continue
            x = np.array([said[name][key].value for name in names])
            y = np.array([measured[name][other].value for name in names])
            varies = np.ptp(x) > 0 and np.ptp(y) > 0
            found = [float(of(x, y).statistic) if varies else None for of in (pearsonr, spearmanr, kendalltau)]
            yield Correlation(
                people=key, automatic=measure.title, systems=len(names),
                pearson=found[0], spearman=found[1], kendall=found[2],
            )  # fmt: skip


Levels = dict[str, dict[str, TwoLevels]]
"""Values by measure and system."""


def survey_results(
    folder: str | Path,
    answers: Sequence[str | Path],
    automatic: str | Path | None = None,
    resamples: int = RESAMPLES,
    command: str = "",
) -> SurveyResults:
    """Compute the results of a survey from the judges' answers.

    ``folder`` has the survey and its key. ``answers`` are the files from judges or platforms. ``automatic`` is the
    ``results.json`` of ``nextword evaluate`` for the same systems; the judges' measures are correlated with its values.
    ``resamples`` is the number of bootstrap resamples. ``command`` is stored in the results.

    Raises:
        ValueError: If the survey or the key is missing, there are no valid answers, or a package is missing.
    """
    survey, key = Survey.load(Path(folder) / SURVEY), SurveyKey.load(Path(folder) / KEY)
    handed, unread = read_answers([Path(path) for path in answers], survey)
    found = counted(survey, key, handed)
    found.left_out[:0] = unread
    if not found.units:
        why = "; ".join(found.left_out[:5]) or "no file given"
        raise ValueError(f"answers: must have valid answers ({why}); give the answer files of this survey")
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
    """Limit an interval of a share to [0, 1], or of a difference of shares to [-1, 1] (``least=-1``)."""
    low, high = interval
    return (max(low, least), min(high, 1.0)) if unit.startswith("share") else interval


def _tests(scored: list[AnswerMeasure], levels: Levels, names: list[str], resamples: int) -> list[PairRecord]:
    """Test every pair of systems in every measure. Intervals are over items and judges, tests over items."""
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
    """Wins, ties and losses of questions about two texts."""
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
    """Share of words that judges marked, per system."""
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
    """Number of words that marks touch, and number of all words."""
    place = marked = total = 0
    for word in text.split():
        place = text.index(word, place)
        total += 1
        marked += any(start < place + len(word) and end > place for start, end in marks)
        place += len(word)
    return marked, total
