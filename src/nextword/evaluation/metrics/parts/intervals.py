"""95 % intervals: Wilson for shares, bootstrap for what is made of sums over samples, t over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from nextword.evaluation.metrics.parts.statistic import Statistic

CONFIDENCE = 0.95
RESAMPLES = 2000
DRAWN_AT_ONCE = 4_000_000
"""Counts of draws held in memory at once."""

MOST_DRAWS = 1_000_000
"""Draws of a bootstrap or permutation test: each reads every sample, and keeps a number for each measure."""

KNOWN_DRAWS = 0.99
"""Share of draws that must have a value: with few samples, some draws are of those without one only."""

Interval = tuple[float, float] | None


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson score interval of a share (Wilson, 1927); inside [0, 1] and of sensible width even at 0 or n successes.

    The ``n`` observations count as independent: prompts that share words make the true interval somewhat wider.

    >>> low, high = wilson(8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4902, 0.9433)
    """
    from scipy.stats import binomtest

    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"wilson: must have 0 <= successes <= n and n > 0 ({successes} of {n} given)")
    interval = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    return float(interval.low), float(interval.high)


def bootstrap_values(
    statistics: Sequence[Statistic], resamples: int = RESAMPLES, seed: int = 0
) -> Float[np.ndarray, "S R"]:
    """Each statistic on ``resamples`` draws of the N samples with replacement (Efron & Tibshirani, 1993, ch. 13).

    All statistics see the same draws, so that the difference of two rows is a paired bootstrap (Koehn, 2004).

    Args:
        statistics: Of one number N of samples each, in the same order.
        resamples: R.
        seed: Of the draws.

    Returns:
        Their values; NaN where a draw has none.

    Raises:
        ValueError: They have different numbers of samples, or fewer than two, or too many draws are asked for.
    """
    expect_draws(resamples, "resamples")
    sizes = {len(statistic.parts) for statistic in statistics}
    if len(sizes) != 1:
        raise ValueError(f"bootstrap: all statistics must have one number of samples ({sorted(sizes)} given)")
    (n,) = sizes
    if n < 2:
        raise ValueError(f"bootstrap: must have at least 2 samples ({n} given)")
    rng = np.random.default_rng(seed)
    stacked = np.concatenate([statistic.parts for statistic in statistics], axis=1)
    ends = np.cumsum([statistic.parts.shape[1] for statistic in statistics])
    at_once = max(1, DRAWN_AT_ONCE // n)
    blocks = []
    for start in range(0, resamples, at_once):
        # Drawing n samples with replacement = multinomial counts: one product instead of n gathered values.
        draws = rng.multinomial(n, np.full(n, 1 / n), size=min(at_once, resamples - start)).astype(np.float64)
        sums = np.split(draws @ stacked, ends[:-1], axis=1)
        blocks.append([s.combine(total) for s, total in zip(statistics, sums, strict=True)])
    values: Float[np.ndarray, "S R"] = np.concatenate([np.stack(block) for block in blocks], axis=1)
    return values


def expect_draws(number: int, name: str) -> None:
    """Raises ValueError where so many draws would not end, or not fit into memory.

    Args:
        number: Of draws.
        name: What they are called.
    """
    if not 1 <= number <= MOST_DRAWS:
        size = f": their values would take {8 * number / 1e9:,.0f} GB for each measure" if number > MOST_DRAWS else ""
        raise ValueError(f"{name}: must be from 1 to {MOST_DRAWS:,} draws ({number:,} given){size}")


def percentiles(values: Float[np.ndarray, "R"], confidence: float = CONFIDENCE) -> Interval:
    """The middle ``confidence`` of drawn values; None where more than one draw in a hundred has no value.

    >>> percentiles(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    known = values[np.isfinite(values)]
    if len(known) < KNOWN_DRAWS * len(values):
        return None
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def bootstrap_intervals(statistics: Sequence[Statistic], resamples: int = RESAMPLES, seed: int = 0) -> list[Interval]:
    """Percentile bootstrap interval of each statistic; None with fewer than two samples."""
    if not statistics or len(statistics[0].parts) < 2:
        return [None for _ in statistics]
    return [percentiles(values) for values in bootstrap_values(statistics, resamples, seed)]


def bootstrap_ratio(
    sums: Float[np.ndarray, "N"],
    counts: Float[np.ndarray, "N"],
    transform: Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]] = lambda ratio: ratio,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap over blocks of ``transform(sum(sums) / sum(counts))``.

    Returns:
        Lower and upper end; ``None`` with fewer than two blocks, where nothing can be said, and where some draw counts
        nothing.

    >>> low, high = bootstrap_ratio(np.array([1.0, 3.0, 2.0, 2.0]), np.ones(4))
    >>> bool(1.0 <= low < 2.0 < high <= 3.0)
    True
    """
    if sums.shape != counts.shape or sums.ndim != 1:
        raise ValueError(
            f"bootstrap: sums and counts must be two lists of one length ({sums.shape}, {counts.shape} given)"
        )
    if len(sums) < 2:
        return None
    values = bootstrap_values([Statistic.ratio(sums, counts, transform)], resamples, seed)
    return percentiles(values[0], confidence)


def over_seeds(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, Interval]:
    """Mean over seeds, and Student's t interval of it; None with one seed.

    The interval speaks of training again with another seed, not of other test data.

    >>> mean, (low, high) = over_seeds([1.0, 2.0, 3.0])
    >>> round(low, 3), mean, round(high, 3)
    (-0.484, 2.0, 4.484)
    """
    from scipy.stats import t

    if not values:
        raise ValueError("over seeds: no value")
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None
    half = float(t.ppf((1 + confidence) / 2, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return mean, (mean - half, mean + half)


def over_models(values: Sequence[float], draws: int) -> tuple[float, Interval]:
    """As ``over_seeds``, of values of texts of which each model wrote several, with seeds of their own.

    The texts of a model are alike, so a model counts once, with its mean. Where there is but one, its texts count, and
    the interval speaks of drawing again.

    >>> over_models([1.0, 3.0, 2.0, 4.0], draws=2) == over_seeds([2.0, 3.0])
    True
    >>> over_models([1.0, 3.0], draws=2) == over_seeds([1.0, 3.0])
    True

    Args:
        values: Those of one model after those of another.
        draws: Values of each model.
    """
    by_model = np.reshape(values, (-1, draws))
    return over_seeds(by_model.mean(axis=1).tolist() if len(by_model) > 1 else by_model[0].tolist())
