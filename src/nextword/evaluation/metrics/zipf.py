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
    """Negative slope of the least-squares line through (log r, log f_r), where f_r is the r-th largest of ``counts``.

    The ``ranks`` largest counts are used, with equal weights. For counts proportional to 1 / r the result is 1, and for
    equal counts 0.

    Source: the script of The curious case of neural text degeneration (Holtzman et al., 2020), with its 5,000 ranks.

    Raises:
        ValueError: If there are fewer than two counts, ``ranks`` is below 2, or a count that is used is below 1.

    >>> round(zipf_coefficient([12, 6, 4, 3]), 6), zipf_coefficient([5, 5, 5])
    (1.0, 0.0)
    """
    frequencies = np.sort(np.asarray(counts, dtype=np.float64))[::-1][:ranks]
    if len(frequencies) < 2 or ranks < 2 or frequencies[-1] < 1:
        raise ValueError(
            f"Zipf coefficient: must have at least two counts of 1 or more and at least two ranks ({len(counts)} "
            f"counts, {ranks} ranks given)"
        )
    x, y = np.log(np.arange(1, len(frequencies) + 1)), np.log(frequencies)
    x, y = x - x.mean(), y - y.mean()
    return max(0.0, float(-(x @ y) / (x @ x)))  # sorted counts never increase, so a value below 0 is a rounding error


class ZipfConfig(MetricConfig):
    """Settings of the Zipf coefficient."""

    ranks: int = Field(default=RANKS, ge=2)
    """Number of most frequent tokens to which the line is fitted."""


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
        """Count the tokens of the generated text."""
        self._counts.update(sample.tokens.tolist())

    def result(self) -> dict[str, Score]:
        """The score, with the key ``zipf``."""
        if len(self._counts) < 2:
            raise UndefinedError(
                f"Zipf coefficient: the texts must have at least two different tokens ({len(self._counts)} given)"
            )
        value = zipf_coefficient(list(self._counts.values()), self.config.ranks)
        measure = self.measure(
            "Zipf coefficient",
            f"negative slope (log frequency on log rank, ranks up to {self.config.ranks})",
            "Zipf coefficient: how steeply token frequencies fall with their rank; about 1 in long human texts, less "
            "in few short texts, higher if few tokens make up most of the text.",
        )
        return {"zipf": Score(measure, value, self._counts.total())}
