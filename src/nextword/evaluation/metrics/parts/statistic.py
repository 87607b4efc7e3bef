"""A number made of sums over samples, which is what a bootstrap or a permutation can draw anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

Combine = Callable[[Float[np.ndarray, "... K"]], Float[np.ndarray, "..."]]
Transform = Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]


@dataclass(frozen=True)
class Statistic:
    """``combine(sum_i parts[i])``: each sample adds K numbers, and the value is a function of their sums.

    Sums are divided once, at the end; no mean of means arises where a ratio of sums is meant.

    >>> Statistic.mean(np.array([1.0, 2.0, np.nan])).value
    1.5
    >>> Statistic.ratio(np.array([1.0, 3.0]), np.array([2.0, 6.0])).value
    0.5
    """

    parts: Float[np.ndarray, "N K"]
    """What each sample adds."""
    combine: Combine
    """From sums, (..., K), to values, (...); a value may be NaN where it is not defined."""

    @classmethod
    def mean(cls, values: Float[np.ndarray, "N"]) -> Statistic:
        """The mean over samples; a NaN stands for a sample without a value, which does not count."""
        values = np.asarray(values, dtype=np.float64)
        known = ~np.isnan(values)
        return cls.ratio(np.where(known, values, 0.0), known.astype(np.float64))

    @classmethod
    def ratio(
        cls,
        sums: Float[np.ndarray, "N"],
        counts: Float[np.ndarray, "N"],
        transform: Transform = np.asarray,
    ) -> Statistic:
        """``transform(sum of sums / sum of counts)``; NaN where the counts add up to 0."""
        parts = np.stack([np.asarray(sums, np.float64), np.asarray(counts, np.float64)], axis=1)
        return cls(parts, partial(_ratio, transform=transform))  # no closure: it is sent between processes

    @property
    def value(self) -> float:
        """The value over all samples."""
        return float(self.combine(self.parts.sum(axis=0)))


def _ratio(totals: Float[np.ndarray, "... K"], transform: Transform) -> Float[np.ndarray, "..."]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(transform(np.where(totals[..., 1] > 0, totals[..., 0] / totals[..., 1], np.nan)))
