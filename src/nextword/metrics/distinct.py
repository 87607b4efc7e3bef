"""Distinct-n: how varied the words of a single text are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int

from nextword.metrics import groups
from nextword.metrics.metric import Metric, MetricConfig, OrdersConfig, Score, Setup, registry
from nextword.metrics.ngrams import TokenTexts
from nextword.metrics.sample import Sample
from nextword.metrics.statistic import Statistic
from nextword.records import Measure


def distinct(texts: Iterable[Sequence[int]] | TokenTexts, n: int) -> Float[np.ndarray, "N"]:
    """Distinct n-grams over n-grams **within each text**; NaN for a text without n-grams.

    Source: the intra-text form of F2-Softmax (Choi et al., 2020, section 4.1). Li et al. (2016) count over the whole
    corpus and divide by tokens, which is another number.

    >>> distinct([[1, 2, 1, 2], [3]], 2)
    array([0.66666667,        nan])
    """
    grams = (texts if isinstance(texts, TokenTexts) else TokenTexts.of(texts)).ngrams(n)
    owner, _, _ = grams.counts()
    found: Int[np.ndarray, "N"] = np.bincount(owner, minlength=grams.number_of_texts)
    with np.errstate(invalid="ignore"):
        shares: Float[np.ndarray, "N"] = found / grams.totals()
    return shares


class DistinctConfig(OrdersConfig):
    """Settings of Distinct-n."""

    n: tuple[int, ...] = (1, 2, 3)
    """The lengths n of the n-grams."""


@registry.register("distinct")
class Distinct(Metric):
    """Distinct-n: the share of a text's n-grams that are different, averaged over texts. Example: ``distinct:1,2``."""

    Config = DistinctConfig
    needs = ("tokens",)

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._texts: list[Int[np.ndarray, "T"]] = []

    def add(self, sample: Sample) -> None:
        """Reads the written text."""
        self._texts.append(sample.tokens)

    def result(self) -> dict[str, Score]:
        """``distinct-n`` for every n."""
        texts = TokenTexts.of(self._texts)
        return {f"distinct-{n}": self._score(texts, n) for n in self.config.n}

    def _score(self, texts: TokenTexts, n: int) -> Score:
        shares = distinct(texts, n)
        measure = Measure(
            title=f"Distinct-{n}",
            group=groups.DIVERSITY,
            unit=f"fraction of {n}-grams of a text",
            goal="human",
            decimals=1,
            meaning="Distinct-n: different n-grams over n-grams within each text, averaged over texts.",
        )
        return Score.of(measure, Statistic.mean(shares), int((~np.isnan(shares)).sum()))
