"""95 % intervals: Wilson for shares, bootstrap for ratios of sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

CONFIDENCE = 0.95


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson score interval of a share (Wilson, 1927); inside [0, 1] and of sensible width even at 0 or n successes.

    The ``n`` observations count as independent: prompts that share words make the true interval somewhat wider.

    >>> low, high = wilson(8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4902, 0.9433)
    """
    from scipy.stats import binomtest

    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"wilson: need 0 <= successes <= n and n > 0, got {successes} of {n}")
    interval = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    return float(interval.low), float(interval.high)


def bootstrap_ratio(
    sums: Float[np.ndarray, "N"],
    counts: Float[np.ndarray, "N"],
    transform: Callable[[Float[np.ndarray, "K"]], Float[np.ndarray, "K"]] = lambda ratio: ratio,
    resamples: int = 2000,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Percentile bootstrap over blocks of ``transform(sum(sums) / sum(counts))`` (Efron & Tibshirani, 1993, ch. 13).

    Whole blocks are drawn with replacement and both sums taken over the draw, so that no mean of means arises.

    Returns:
        Lower and upper end; ``None`` with fewer than two blocks, where nothing can be said.

    >>> low, high = bootstrap_ratio(np.array([1.0, 3.0, 2.0, 2.0]), np.ones(4))
    >>> bool(1.0 <= low < 2.0 < high <= 3.0)
    True
    """
    if sums.shape != counts.shape or sums.ndim != 1:
        raise ValueError(
            f"bootstrap: sums and counts must be two lists of one length, got {sums.shape}, {counts.shape}"
        )
    n = len(sums)
    if n < 2:
        return None
    # Drawing n blocks with replacement = multinomial counts per block: one product instead of n gathered values.
    draws = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64)
    values = transform((draws @ sums) / (draws @ counts))
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
