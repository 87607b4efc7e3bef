"""Intervals of values that come from items and judges alike: other items and other judges would have given others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from nextword.evaluation.metrics.statistics import CONFIDENCE, RESAMPLES, Interval, Statistic, bootstrap_values
from nextword.evaluation.survey.kinds.rating import REFERENCE
from nextword.results.records import EvaluationResults, MetricValue
from nextword.results.records.survey_files import Correlation, Level
from nextword.runtime import optional_libraries as extras


@dataclass(frozen=True)
class TwoLevels:
    """A statistic whose parts are summed over what shares an item, what shares a judge, and what shares both."""

    items: Statistic
    judges: Statistic
    cells: Statistic

    @property
    def value(self) -> float:
        """The value over all answers."""
        return self.items.value

    def less(self, other: TwoLevels) -> TwoLevels:
        """The difference of two values that come from the same items and judges."""
        return TwoLevels(
            _less(self.items, other.items), _less(self.judges, other.judges), _less(self.cells, other.cells)
        )


@dataclass(frozen=True)
class Crossing:
    """Which answers of a survey share an item or a judge, from 0; values of one crossing can be subtracted."""

    items: Int[np.ndarray, "N"]
    judges: Int[np.ndarray, "N"]

    def levels(
        self,
        statistic: Statistic,
        items: Int[np.ndarray, "M"] | None = None,
        judges: Int[np.ndarray, "M"] | None = None,
    ) -> TwoLevels:
        """A statistic of M answers, by default those of the crossing, summed in the three ways."""
        items, judges = self.items if items is None else items, self.judges if judges is None else judges
        number_of_items, number_of_judges = int(self.items.max()) + 1, int(self.judges.max()) + 1
        cells = np.unique(self.items * number_of_judges + self.judges)
        cell = np.searchsorted(cells, items * number_of_judges + judges)
        groups = ((items, number_of_items), (judges, number_of_judges), (cell, len(cells)))
        return TwoLevels(*(replace(statistic, parts=_summed(statistic.parts, *group)) for group in groups))


def two_level_intervals(
    values: Sequence[TwoLevels], resamples: int = RESAMPLES, seed: int = 0, confidence: float = CONFIDENCE
) -> list[Interval]:
    """Intervals for other items and other judges.

    Items are drawn with replacement, judges are drawn with replacement, and the two deviations are added. What chance
    does to a single answer is in both, so their sum is scaled to the variance ``V_items + V_judges - V_cells``
    (Cameron, Gelbach & Miller, 2011), with G / (G - 1) for G items or judges and Student's t in place of the normal
    (Satterthwaite's degrees of freedom), because judges are few. It is never taken to be below the larger of the two.
    With one judge there are only items. Where judges are few and do not differ at all, the interval is somewhat too
    wide: it holds the truth in up to 98 % of surveys.

    Returns:
        Lower and upper end; None with fewer than two items, and where a draw leaves no value.
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
    # G / (G - 1): a bootstrap of G groups has the variance of dividing by G where G - 1 is right.
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


# -- How far judges agree: Krippendorff's alpha, and the share of pairs of judges who say the same.


def alpha(codes: Float[np.ndarray, "J U"], level: Level) -> float | None:
    """Krippendorff's alpha (Krippendorff, 2004, ch. 11), by the ``krippendorff`` package.

    ``codes`` are what each judge said of each unit, as a number; NaN where nothing.

    Returns:
        1 for perfect agreement, 0 for that of chance; None where nothing was judged twice or all answers are the same.

    Raises:
        ValueError: The package is missing.
    """
    if extras.missing(["krippendorff"]):
        raise ValueError(f"agreement: must have the package krippendorff (missing); {extras.install('survey')}")
    import krippendorff

    twice = codes[:, (~np.isnan(codes)).sum(axis=0) > 1]
    if len(np.unique(twice[~np.isnan(twice)])) < 2:
        return None
    return float(krippendorff.alpha(reliability_data=twice, level_of_measurement=level))


def percent_agreement(codes: Float[np.ndarray, "J U"]) -> float | None:
    """Share of pairs of judges with the same answer about the same unit; None where nothing was judged twice.

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
    """Answers as a table of judges and units.

    ``values`` are all of the question, in order; their numbers where the scale is that of numbers.
    """
    judges = {name: at for at, name in enumerate(dict.fromkeys(judge for judge, _, _ in answers))}
    units = {name: at for at, name in enumerate(dict.fromkeys(unit for _, unit, _ in answers))}
    numbers = {value: float(value) if level == "interval" else float(at) for at, value in enumerate(values)}
    table = np.full((len(judges), len(units)), np.nan)
    for judge, unit, value in answers:
        table[judges[judge], units[unit]] = numbers[value]
    return table


# -- Do automatic measures order systems as people do?

FEWEST = 3
"""Systems from which on a correlation says anything."""


def correlations(people: EvaluationResults, automatic: EvaluationResults) -> tuple[list[Correlation], str | None]:
    """Over the systems that both have, by name.

    Where judges rated the reference too, its automatic measures are those of the human row: it is one system more
    for every measure that the human row has.

    Returns:
        A correlation for each two measures, and why there is none.
    """
    # People's own texts have the name that they have in a survey.
    measured = {} if automatic.human is None else {REFERENCE: automatic.human.values}
    measured |= {one.name: one.values for one in automatic.systems}
    common = [one.name for one in people.systems if one.name in measured]
    if len(common) < FEWEST:
        return [], (
            f"{len(common)} systems have both ({', '.join(common) or 'none'}): a correlation over systems needs "
            f"{FEWEST} or more of the same names"
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
