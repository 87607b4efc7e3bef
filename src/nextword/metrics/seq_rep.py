"""seq-rep-n: how much a completion repeats itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from nextword.metrics import groups
from nextword.metrics.distinct import distinct
from nextword.metrics.metric import (
    Metric,
    MetricConfig,
    Order,
    OrdersConfig,
    Score,
    Setup,
    UndefinedError,
    registry,
)
from nextword.metrics.ngrams import TokenTexts
from nextword.metrics.sample import Sample
from nextword.metrics.statistic import Statistic
from nextword.metrics.units import Words
from nextword.records import Measure

FEWEST_WORDS = 4
"""Completions of fewer words are left out of the word form."""


def seq_rep(texts: Iterable[Sequence[int]] | TokenTexts, n: int) -> Float[np.ndarray, "N"]:
    """1 - distinct n-grams / n-grams of each text; NaN for a text without n-grams.

    Source: Neural text generation with unlikelihood training (Welleck et al., 2020).

    >>> seq_rep([[1, 2, 1, 2, 1], [3]], 2)
    array([0.5, nan])
    """
    return 1 - distinct(texts, n)


class SeqRepConfig(OrdersConfig):
    """Settings of seq-rep-n."""

    n: tuple[Order, ...] = Field(default=(1, 4), min_length=1)
    """The lengths n of the n-grams."""
    words: bool = False
    """Counts words and punctuation marks of the text, not tokens; texts of fewer than four then do not count."""


@registry.register("seq-rep")
class SeqRep(Metric):
    """seq-rep-n: the share of a completion's n-grams that were there before, averaged. Example: ``seq-rep:1,4``."""

    Config = SeqRepConfig
    needs = ("tokens",)
    votes = ("seq-rep-4",)

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._texts: list[Int[np.ndarray, "T"]] = []
        self._words = Words()
        self._read = self._words_of if self.config.words else _tokens_of
        self._unit = "words" if self.config.words else "tokens"

    def add(self, sample: Sample) -> None:
        """Reads the written text."""
        self._texts.append(self._read(sample))

    def result(self) -> dict[str, Score]:
        """``seq-rep-n`` for every n that some text is long enough for."""
        texts = TokenTexts.of(self._texts)
        found = {n: seq_rep(texts, n) for n in self.config.n}
        known = {n: shares for n, shares in found.items() if not np.isnan(shares).all()}
        if not known:
            fewest = min(self.config.n)
            raise UndefinedError(f"seq-rep-{fewest}: no sample has a value; no text has {fewest} {self._unit}")
        return {f"seq-rep-{n}": self._score(shares, n) for n, shares in known.items()}

    def _words_of(self, sample: Sample) -> Int[np.ndarray, "T"]:
        words = self._words.ids(sample.need("text", "seq-rep over words"))
        return words if len(words) >= FEWEST_WORDS else words[:0]

    def _score(self, shares: Float[np.ndarray, "N"], n: int) -> Score:
        measure = Measure(
            title=f"seq-rep-{n}",
            group=groups.REPETITION,
            unit=f"fraction of {n}-grams of {self._unit} of a text",
            goal="human",
            decimals=1,
            meaning=f"seq-rep-{n}: n-grams of a text that occurred in it before, over all, averaged over texts.",
        )
        return Score.of(measure, Statistic.mean(shares), int((~np.isnan(shares)).sum()))


def _tokens_of(sample: Sample) -> Int[np.ndarray, "T"]:
    return sample.tokens
