"""Zipf coefficient: how steeply the frequencies of tokens fall with their rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry
from nextword.evaluation.metrics.sample import Sample

RANKS = 5000


def zipf_coefficient(counts: Sequence[int] | Int[np.ndarray, "K"], ranks: int = RANKS) -> float:
    """Minus the slope of the least-squares line through (log r, log f_r), f_r being the count of the r-th token.

    Tokens are ranked by count, the most frequent first, and the first ``ranks`` of them are used, each with the same
    weight. Exactly proportional to 1 / r makes 1; equal counts make 0.

    Source: the script of The curious case of neural text degeneration (Holtzman et al., 2020), with its 5,000 ranks.

    Raises:
        ValueError: Fewer than two tokens or ranks, or a count below 1.

    >>> round(zipf_coefficient([12, 6, 4, 3]), 6), zipf_coefficient([5, 5, 5])
    (1.0, 0.0)
    """
    frequencies = np.sort(np.asarray(counts, dtype=np.float64))[::-1][:ranks]
    if len(frequencies) < 2 or ranks < 2 or frequencies[-1] < 1:
        raise ValueError(
            f"Zipf coefficient: must have two counts from 1 and two ranks ({len(counts)} counts, {ranks} ranks given)"
        )
    x, y = np.log(np.arange(1, len(frequencies) + 1)), np.log(frequencies)
    x, y = x - x.mean(), y - y.mean()
    return max(0.0, float(-(x @ y) / (x @ x)))  # sorted counts never rise: below 0 is rounding of 0


class ZipfConfig(MetricConfig):
    """Settings of the Zipf coefficient."""

    ranks: int = Field(default=RANKS, ge=2)
    """Number of most frequent tokens that the line is fitted to."""


@registry.register("zipf")
class Zipf(Metric):
    """Zipf coefficient: how steeply token frequencies fall with their rank, over all texts. Example: ``zipf``."""

    Config = ZipfConfig
    needs = ("tokens",)
    group, goal, decimals = metric.FREQUENCY, "human", 2

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._counts: Counter[int] = Counter()

    def add(self, sample: Sample) -> None:
        """Counts the tokens of the written text."""
        self._counts.update(sample.tokens.tolist())

    def result(self) -> dict[str, Score]:
        """``zipf``."""
        if len(self._counts) < 2:
            raise UndefinedError(
                f"Zipf coefficient: a line needs two different tokens, the texts have {len(self._counts)}"
            )
        value = zipf_coefficient(list(self._counts.values()), self.config.ranks)
        measure = self.measure(
            "Zipf coefficient",
            f"slope (minus; log frequency on log rank, ranks up to {self.config.ranks})",
            "Zipf coefficient: how steeply token frequencies fall with their rank; about 1 in long human texts, "
            "less in few short ones, higher where few tokens make up more of it.",
        )
        return {"zipf": Score(measure, value, self._counts.total())}
