"""seq-rep-n: how much a completion repeats itself."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.distinct import distinct, distinct_by_length
from nextword.evaluation.metrics.metric import (
    MetricConfig,
    OfAllTexts,
    Order,
    OrdersConfig,
    Score,
    Setup,
    UndefinedError,
    registry,
)
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import Texts, Tokenize, Words

FEWEST_WORDS = 4
"""Completions of fewer words are left out of the word form."""


def seq_rep(texts: Texts, n: int, tokenize: Tokenize = "words") -> Float[np.ndarray, "N"]:
    """1 - distinct n-grams / n-grams of each text; NaN for a text without n-grams.

    Source: Neural text generation with unlikelihood training (Welleck et al., 2020).

    Raises:
        ValueError: No list of texts, or a length below 1.

    >>> seq_rep([[1, 2, 1, 2, 1], [3]], 2)
    array([0.5, nan])
    """
    return 1 - distinct(texts, n, tokenize)


class SeqRepConfig(OrdersConfig):
    """Settings of seq-rep-n."""

    n: tuple[Order, ...] = Field(default=(1, 4), min_length=1)
    """The lengths n of the n-grams."""
    words: bool = False
    """Counts words and punctuation marks of the text, not tokens; texts of fewer than four then do not count."""


@registry.register("seq-rep")
class SeqRep(OfAllTexts):
    """seq-rep-n: the share of a completion's n-grams that were there before, averaged. Example: ``seq-rep:1,4``."""

    Config = SeqRepConfig
    votes = ("seq-rep-4",)
    group, goal, decimals = metric.REPETITION, "human", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._words = Words() if self.config.words else None
        self._unit = "words" if self.config.words else "tokens"

    def add(self, sample: Sample) -> None:
        """Reads the written text."""
        if self._words is None:
            super().add(sample)
            return
        words = self._words.ids(sample.need("text", "seq-rep over words"))
        self._tokens.append(words if len(words) >= FEWEST_WORDS else words[:0])

    def result(self) -> dict[str, Score]:
        """``seq-rep-n`` for every n that some text is long enough for."""
        known = {n: 1 - shares for n, shares in distinct_by_length(self.texts(), self.config.n).items()}
        if not known:
            fewest = min(self.config.n)
            raise UndefinedError(f"seq-rep-{fewest}: no sample has a value; no text has {fewest} {self._unit}")
        found = {}
        for n, shares in known.items():
            meaning = f"seq-rep-{n}: n-grams of a text that occurred in it before, over all, averaged over texts."
            measure = self.measure(f"seq-rep-{n}", f"fraction of {n}-grams of {self._unit} of a text", meaning)
            found[f"seq-rep-{n}"] = Score.mean(measure, shares)
        return found
