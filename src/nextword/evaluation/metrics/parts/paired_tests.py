"""Is one system better than another on the same prompts? Paired bootstrap and paired permutation test.

Both ask about these prompts and prompts like them, not about training again: for that there are seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from nextword.evaluation.metrics.parts.intervals import (
    DRAWN_AT_ONCE,
    RESAMPLES,
    Interval,
    bootstrap_values,
    expect_draws,
    percentiles,
)
from nextword.evaluation.metrics.parts.statistic import Statistic

PERMUTATIONS = 10_000


@dataclass(frozen=True)
class PairedTest:
    """Value of one system less value of another, on the same samples."""

    difference: float
    """First less second."""
    interval: Interval
    """95 % bootstrap interval of the difference."""
    p_bootstrap: float
    """Two-sided: twice the smaller share of draws on one side of 0 (Koehn, 2004; Efron & Tibshirani, 1993, ch. 16)."""
    p_permutation: float
    """Two-sided: share of all ways to swap the systems sample by sample with a difference at least as large."""


def paired_tests(
    first: Sequence[Statistic],
    second: Sequence[Statistic],
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> list[PairedTest | None]:
    """Tests of several statistics of two systems; all use the same draws.

    Args:
        first: Statistics of one system, each over the same N samples.
        second: The same statistics of the other system, over the same samples in the same order.
        resamples: Bootstrap draws.
        permutations: Swaps drawn; where all 2^N are not more than that, all are taken and the test is exact.
        seed: Of the draws.

    Returns:
        One test each; None with fewer than two samples, or where a draw leaves a statistic without a value.

    Raises:
        ValueError: The systems do not have the same samples, or too many draws are asked for.
    """
    expect_draws(permutations, "permutations")
    if not first:
        return []
    for a, b in zip(first, second, strict=True):
        if a.parts.shape != b.parts.shape:
            raise ValueError(f"paired test: {len(a.parts)} samples against {len(b.parts)}; give the same prompts")
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
    # One is added to both counts: the observed data are one of the draws, so no p-value is 0 (Davison & Hinkley, 1997).
    sides = min((bootstrap <= 0).sum(), (bootstrap >= 0).sum())
    p_bootstrap = min(1.0, 2 * (float(sides) + 1) / (len(bootstrap) + 1))
    # Rounding must not make a mere relabelling look smaller than what was observed.
    as_large = np.abs(permuted) >= abs(difference) * (1 - 1e-12) - 1e-15
    return PairedTest(difference, interval, p_bootstrap, float(as_large.mean()))


def _swapped_differences(
    first: Sequence[Statistic], second: Sequence[Statistic], permutations: int, seed: int
) -> Float[np.ndarray, "S P"]:
    """Differences with the systems swapped on random samples (or in every possible way); the first swap is none."""
    a = np.concatenate([statistic.parts for statistic in first], axis=1)
    b = np.concatenate([statistic.parts for statistic in second], axis=1)
    ends = np.cumsum([statistic.parts.shape[1] for statistic in first])[:-1]
    blocks = []
    for swaps in _swaps(len(a), permutations, seed):
        moved = swaps.astype(np.float64) @ (b - a)
        sums_a = np.split(a.sum(axis=0) + moved, ends, axis=1)
        sums_b = np.split(b.sum(axis=0) - moved, ends, axis=1)
        blocks.append([s.combine(x) - s.combine(y) for s, x, y in zip(first, sums_a, sums_b, strict=True)])
    values: Float[np.ndarray, "S P"] = np.concatenate([np.stack(block) for block in blocks], axis=1)
    return values


def _swaps(n: int, permutations: int, seed: int) -> Iterator[Bool[np.ndarray, "P N"]]:
    if n < 63 and 2**n <= permutations:
        yield (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1
        return
    rng = np.random.default_rng(seed)
    at_once = max(1, DRAWN_AT_ONCE // n)
    for start in range(0, permutations, at_once):
        swaps = rng.random((min(at_once, permutations - start), n)) < 0.5
        if start == 0:
            swaps[0] = False  # what was observed is one of the ways
        yield swaps


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm, 1979): comparing each with 0.05 errs in the whole family in 5 %.

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
