"""Statistics that are functions of sums over samples, with bootstrap intervals and permutation tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int

Combine = Callable[[Float[np.ndarray, "... K"]], Float[np.ndarray, "..."]]
Transform = Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]
Numbers = Sequence[float | int] | Float[np.ndarray, "N"] | Int[np.ndarray, "N"]
"""One value per sample."""


@dataclass(frozen=True)
class Statistic:
    """A statistic ``combine(sum_i parts[i])``. Each sample i adds K numbers; the value is a function of the K sums.

    An example is the ratio of two sums over all samples, which differs from the mean of the samples' ratios.

    >>> Statistic.mean(np.array([1.0, 2.0, np.nan])).value
    1.5
    >>> Statistic.ratio(np.array([1.0, 3.0]), np.array([2.0, 6.0])).value
    0.5
    """

    parts: Float[np.ndarray, "N K"]
    """Contributions of the samples, (N, K)."""
    combine: Combine
    """Function from sums (..., K) to values (...). An undefined value is NaN."""

    @classmethod
    def mean(cls, values: Float[np.ndarray, "N"]) -> Statistic:
        """The mean of ``values`` over samples. NaN marks a sample without a value, which is left out."""
        known = ~np.isnan(values)
        return cls.ratio(np.where(known, values, 0.0), known.astype(np.float64))

    @classmethod
    def ratio(cls, sums: Numbers, counts: Numbers, transform: Transform = np.asarray) -> Statistic:
        """``transform(sum(sums) / sum(counts))``, with one sum and one count per sample. NaN if the counts sum to 0."""
        parts = np.stack([np.asarray(sums, np.float64), np.asarray(counts, np.float64)], axis=1)
        return cls(parts, partial(_ratio, transform=transform))  # not a closure, because it must be picklable

    @property
    def value(self) -> float:
        """The value over all samples."""
        return float(self.combine(self.parts.sum(axis=0)))


def _ratio(totals: Float[np.ndarray, "... K"], transform: Transform) -> Float[np.ndarray, "..."]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(transform(np.where(totals[..., 1] > 0, totals[..., 0] / totals[..., 1], np.nan)))


# -- 95 % intervals: Wilson's for shares, bootstrap for functions of sums over samples, Student's t over seeds.

CONFIDENCE = 0.95
RESAMPLES = 2000
DRAWN_AT_ONCE = 4_000_000
"""Maximum number of resample counts in memory at a time."""

MOST_DRAWS = 1_000_000
"""Maximum number of resamples or permutations."""

KNOWN_DRAWS = 0.99
"""Share of resamples that must have a value, or there is no interval. A resample of few samples may have no value."""

Interval = tuple[float, float] | None


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson score interval of the proportion ``successes / n`` (Wilson, 1927), which is valid even for 0 or 1.

    The ``n`` observations are assumed to be independent. If they are not, for example because prompts have words in
    common, the interval is too narrow.

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
    """Values of S statistics on R bootstrap resamples of the N samples, (S, R) (Efron & Tibshirani, 1993, ch. 13).

    All statistics use the same resamples, so the difference of two rows is a paired bootstrap (Koehn, 2004).

    Returns:
        The values. NaN where a statistic has no value on a resample.

    Raises:
        ValueError: If the statistics have different numbers of samples or fewer than two samples, or ``resamples`` is
            not from 1 to ``MOST_DRAWS``.
    """
    expect_draws(resamples, "resamples")
    sizes = {len(statistic.parts) for statistic in statistics}
    if len(sizes) != 1:
        raise ValueError(f"bootstrap: all statistics must have the same number of samples ({sorted(sizes)} given)")
    (n,) = sizes
    if n < 2:
        raise ValueError(f"bootstrap: must have at least 2 samples ({n} given)")
    rng = np.random.default_rng(seed)
    stacked = np.concatenate([statistic.parts for statistic in statistics], axis=1)
    at_once = max(1, DRAWN_AT_ONCE // n)
    blocks = []
    for start in range(0, resamples, at_once):
        # resampling n samples with replacement gives multinomial counts, so one matrix product is enough
        draws = rng.multinomial(n, np.full(n, 1 / n), size=min(at_once, resamples - start)).astype(np.float64)
        blocks.append(_combined(statistics, draws @ stacked))
    return np.concatenate(blocks, axis=1)


def _combined(statistics: Sequence[Statistic], sums: Float[np.ndarray, "R SK"]) -> Float[np.ndarray, "S R"]:
    """The values of resamples, from the concatenated sums of all statistics."""
    ends = np.cumsum([statistic.parts.shape[1] for statistic in statistics])[:-1]
    return np.stack([s.combine(own) for s, own in zip(statistics, np.split(sums, ends, axis=1), strict=True)])


def expect_draws(number: int, name: str) -> None:
    """Raise ValueError if ``number``, the value of the setting ``name``, is not from 1 to ``MOST_DRAWS``."""
    if not 1 <= number <= MOST_DRAWS:
        size = f": their values would take {8 * number / 1e9:,.0f} GB for each measure" if number > MOST_DRAWS else ""
        raise ValueError(f"{name}: must be from 1 to {MOST_DRAWS:,} ({number:,} given){size}")


def percentiles(values: Float[np.ndarray, "R"], confidence: float = CONFIDENCE) -> Interval:
    """Percentile interval of resampled ``values``. None if more than 1 % of them are NaN or infinite.

    >>> percentiles(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    known = values[np.isfinite(values)]
    if len(known) < KNOWN_DRAWS * len(values):
        return None
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def bootstrap_intervals(statistics: Sequence[Statistic], resamples: int = RESAMPLES, seed: int = 0) -> list[Interval]:
    """95 % bootstrap interval (``percentiles``) of each of ``statistics``. None if there are fewer than two samples."""
    if not statistics or len(statistics[0].parts) < 2:
        return [None for _ in statistics]
    return [percentiles(values) for values in bootstrap_values(statistics, resamples, seed)]


def bootstrap_ratio(
    sums: Numbers,
    counts: Numbers,
    transform: Transform = np.asarray,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of ``transform(sum(sums) / sum(counts))`` over blocks, with one sum and one count per block.

    Returns:
        Lower and upper end. ``None`` with fewer than two blocks, or if more than 1 % of the resamples have no finite
        value, for instance because their counts sum to 0.

    >>> low, high = bootstrap_ratio(np.array([1.0, 3.0, 2.0, 2.0]), np.ones(4))
    >>> bool(1.0 <= low < 2.0 < high <= 3.0)
    True
    """
    shapes = np.shape(sums), np.shape(counts)
    if shapes[0] != shapes[1] or len(shapes[0]) != 1:
        raise ValueError(
            f"bootstrap: sums and counts must be lists of the same length ({shapes[0]}, {shapes[1]} given)"
        )
    if len(sums) < 2:
        return None
    values = bootstrap_values([Statistic.ratio(sums, counts, transform)], resamples, seed)
    return percentiles(values[0], confidence)


def over_seeds(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, Interval]:
    """Mean of ``values``, one per seed, and Student's t interval of this mean. With one seed, the interval is None.

    The interval shows how much the value varies between training seeds, not between test sets.

    >>> mean, (low, high) = over_seeds([1.0, 2.0, 3.0])
    >>> round(low, 3), mean, round(high, 3)
    (-0.484, 2.0, 4.484)
    """
    from scipy.stats import t

    if not values:
        raise ValueError("over seeds: must have at least one value (none given)")
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None
    half = float(t.ppf((1 + confidence) / 2, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return mean, (mean - half, mean + half)


def over_models(values: Sequence[float], draws: int) -> tuple[float, Interval]:
    """``over_seeds`` for values of several models. Each model has ``draws`` consecutive values, one per sampling seed.

    Texts of one model are not independent, so each model counts once, with its mean. If there is only one model, its
    values are used, and the interval describes variation between sampling seeds.

    >>> over_models([1.0, 3.0, 2.0, 4.0], draws=2) == over_seeds([2.0, 3.0])
    True
    >>> over_models([1.0, 3.0], draws=2) == over_seeds([1.0, 3.0])
    True
    """
    by_model = np.reshape(values, (-1, draws))
    return over_seeds(by_model.mean(axis=1).tolist() if len(by_model) > 1 else by_model[0].tolist())


# -- Whether one system is better than another on the same prompts: paired bootstrap and paired permutation test.
#
# Both tests are about these and similar prompts, and not about repeated training, for which there are several seeds.

PERMUTATIONS = 10_000


@dataclass(frozen=True)
class PairedTest:
    """Paired test of the difference between two systems on the same samples."""

    difference: float
    """Value of the first system minus value of the second."""
    interval: Interval
    """95 % bootstrap interval of ``difference``."""
    p_bootstrap: float
    """Two-sided bootstrap p-value: twice the share of resamples with a difference of at most 0, or twice the share with
    one of at least 0, whichever is smaller (Koehn, 2004; Efron & Tibshirani, 1993, ch. 16). The observed data count as
    one more resample in both shares."""
    p_permutation: float
    """Two-sided permutation p-value: the share of swaps of the two systems' samples that give a difference at least as
    large in absolute value as ``difference``."""


def paired_tests(
    first: Sequence[Statistic],
    second: Sequence[Statistic],
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> list[PairedTest | None]:
    """Paired tests of two systems, one for each index i. ``first[i]`` and ``second[i]`` are the same statistic.

    The systems must have the same N samples in the same order. All tests have the same resamples. A permutation swaps
    the two systems' contributions of some samples. If there are at most ``permutations`` such permutations (2^N), all
    are used, and the permutation test is exact. Otherwise, ``permutations`` random ones are used.

    Returns:
        One test per statistic. None with fewer than two samples, or if a statistic has no value on a permutation or on
        more than 1 % of the resamples.

    Raises:
        ValueError: If the systems have different numbers of samples, or ``resamples`` or ``permutations`` is not from 1
            to ``MOST_DRAWS``.
    """
    expect_draws(permutations, "permutations")
    if not first:
        return []
    for a, b in zip(first, second, strict=True):
        if a.parts.shape != b.parts.shape:
            raise ValueError(
                f"paired test: {len(a.parts)} samples against {len(b.parts)}; give the same prompts for both systems"
            )
    if len(first[0].parts) < 2:
        return [None for _ in first]
    drawn = bootstrap_values([*first, *second], resamples, seed)
    swapped = _swapped_differences(first, second, permutations, seed)
    tests = zip(first, second, drawn[: len(first)] - drawn[len(first) :], swapped, strict=True)
    return [_test(a.value - b.value, bootstrap, permuted) for a, b, bootstrap, permuted in tests]


def _test(difference: float, bootstrap: Float[np.ndarray, "R"], permuted: Float[np.ndarray, "P"]) -> PairedTest | None:
    interval = percentiles(bootstrap)
    if interval is None or not (np.isfinite(difference) and np.isfinite(permuted).all()):
        return None
    bootstrap = bootstrap[np.isfinite(bootstrap)]
    # 1 is added to both counts: the observed data count as one resample, so no p-value is 0 (Davison & Hinkley, 1997)
    sides = min((bootstrap <= 0).sum(), (bootstrap >= 0).sum())
    p_bootstrap = min(1.0, 2 * (float(sides) + 1) / (len(bootstrap) + 1))
    # with a tolerance, because by rounding a swap that changes nothing could look smaller than the observed difference
    as_large = np.abs(permuted) >= abs(difference) * (1 - 1e-12) - 1e-15
    return PairedTest(difference, interval, p_bootstrap, float(as_large.mean()))


def _swapped_differences(
    first: Sequence[Statistic], second: Sequence[Statistic], permutations: int, seed: int
) -> Float[np.ndarray, "S P"]:
    a = np.concatenate([statistic.parts for statistic in first], axis=1)
    b = np.concatenate([statistic.parts for statistic in second], axis=1)
    blocks = []
    for swaps in _swaps(len(a), permutations, seed):
        moved = swaps.astype(np.float64) @ (b - a)
        blocks.append(_combined(first, a.sum(axis=0) + moved) - _combined(first, b.sum(axis=0) - moved))
    return np.concatenate(blocks, axis=1)


def _swaps(n: int, permutations: int, seed: int) -> Iterator[Bool[np.ndarray, "P N"]]:
    """Signs of the swaps: all possible swaps, or random ones."""
    if n < 63 and 2**n <= permutations:
        yield (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1
        return
    rng = np.random.default_rng(seed)
    at_once = max(1, DRAWN_AT_ONCE // n)
    for start in range(0, permutations, at_once):
        swaps = rng.random((min(at_once, permutations - start), n)) < 0.5
        if start == 0:
            swaps[0] = False  # the observed data count as one of the ways to swap
        yield swaps


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-corrected p-values (Holm, 1979). If each is compared with 0.05, the family-wise error rate is at most 5 %.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    corrected = np.empty(len(p_values))
    running = 0.0
    for place, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = running
    return [float(p) for p in corrected]
