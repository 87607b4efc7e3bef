"""Intervals of values that come from items and judges alike: other items and other judges would have given others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from nextword.evaluation.metrics.parts.intervals import CONFIDENCE, RESAMPLES, Interval, bootstrap_values
from nextword.evaluation.metrics.parts.statistic import Combine, Statistic


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
    """Which answers of a survey share an item or a judge; values of one crossing can be subtracted.

    Attributes:
        items: Of each answer, from 0.
        judges: Of each answer, from 0.
    """

    items: Int[np.ndarray, "N"]
    judges: Int[np.ndarray, "N"]

    def levels(
        self,
        statistic: Statistic,
        items: Int[np.ndarray, "M"] | None = None,
        judges: Int[np.ndarray, "M"] | None = None,
    ) -> TwoLevels:
        """A statistic of M answers, summed in the three ways.

        Args:
            statistic: With the parts of each of them, (M, K).
            items: Of the M answers; None: they are those of the crossing.
            judges: Of the M answers.
        """
        items, judges = self.items if items is None else items, self.judges if judges is None else judges
        cells = self._cells()
        grouped = (
            _summed(statistic.parts, items, int(self.items.max()) + 1),
            _summed(statistic.parts, judges, int(self.judges.max()) + 1),
            _summed(statistic.parts, np.searchsorted(cells, self._pairs(items, judges)), len(cells)),
        )
        return TwoLevels(*(replace(statistic, parts=parts) for parts in grouped))

    def _pairs(self, items: Int[np.ndarray, "M"], judges: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
        pairs: Int[np.ndarray, "M"] = items * (int(self.judges.max()) + 1) + judges
        return pairs

    def _cells(self) -> Int[np.ndarray, "C"]:
        cells: Int[np.ndarray, "C"] = np.unique(self._pairs(self.items, self.judges))
        return cells


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

    Args:
        values: Over the same items and judges.
        resamples: Draws of each kind.
        seed: Of the draws.
        confidence: Share of such intervals that hold the true value.

    Returns:
        Lower and upper end; None with fewer than two items, and where a draw leaves no value.
    """
    if not values or len(values[0].items.parts) < 2:
        return [None for _ in values]
    several = len(values[0].judges.parts) > 1
    items = bootstrap_values([one.items for one in values], resamples, seed)
    if not several:
        judges = cells = np.tile(np.array([[one.value] for one in values]), (1, resamples))
    else:
        judges = bootstrap_values([one.judges for one in values], resamples, seed + 1)
        cells = bootstrap_values([one.cells for one in values], resamples, seed + 2)
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
    combine = partial(_difference, first=first.combine, second=second.combine, width=width)
    return Statistic(np.concatenate([first.parts, second.parts], axis=1), combine)


def _difference(
    totals: Float[np.ndarray, "... K"], first: Combine, second: Combine, width: int
) -> Float[np.ndarray, "..."]:
    return first(totals[..., :width]) - second(totals[..., width:])
