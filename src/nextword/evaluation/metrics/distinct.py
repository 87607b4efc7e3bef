"""Distinct-n: how varied the words of a text are; uniq: how many different tokens a system uses at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int, Num
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import (
    Metric,
    MetricConfig,
    OfAllTexts,
    Order,
    OrdersConfig,
    Score,
    Setup,
    UndefinedError,
    registry,
)
from nextword.evaluation.metrics.ngrams import NGrams, TokenTexts
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import Texts, Tokenize, token_texts
from nextword.results.records import Measure


def distinct(texts: Texts, n: int, tokenize: Tokenize = "words") -> Float[np.ndarray, "N"]:
    """Distinct n-grams over n-grams **within each text**; NaN for a text without n-grams.

    Source: the intra-text form of F2-Softmax (Choi et al., 2020, section 4.1). Li et al. (2016) count over the whole
    corpus and divide by tokens, which is another number.

    Raises:
        ValueError: No list of texts, or a length below 1.

    >>> distinct(["to be to be", "so"], 2)
    array([0.66666667,        nan])
    >>> distinct([[1, 2, 1, 2], [3]], 2)
    array([0.66666667,        nan])
    """
    (found,) = token_texts(texts, tokenize=tokenize)
    return share_of(*distinct_and_all(found.ngrams(n)))


def distinct_and_all(grams: NGrams) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """How many different n-grams each text has, and how many in all.

    >>> [counts.tolist() for counts in distinct_and_all(TokenTexts.of([[1, 2, 1, 2], [3]]).ngrams(2))]
    [[2, 0], [3, 0]]
    """
    owner, _, _ = grams.counts()
    return np.bincount(owner, minlength=grams.number_of_texts), grams.totals()


def share_of(found: Num[np.ndarray, "... K"], total: Num[np.ndarray, "... K"]) -> Float[np.ndarray, "... K"]:
    """The one over the other; NaN where there is nothing in all."""
    with np.errstate(invalid="ignore"):
        shares: Float[np.ndarray, "... K"] = found / total
    return shares


def distinct_by_length(texts: TokenTexts, n: Sequence[int]) -> dict[int, Float[np.ndarray, "N"]]:
    """``distinct`` for every length in ``n`` that some text has n-grams of; each n-gram is numbered once for all."""
    by_length = list(texts.ngrams_up_to(max(n)))
    shares = {one: share_of(*distinct_and_all(by_length[one - 1])) for one in n}
    return {one: values for one, values in shares.items() if not np.isnan(values).all()}


class DistinctConfig(OrdersConfig):
    """Settings of Distinct-n."""

    n: tuple[Order, ...] = Field(default=(1, 2, 3), min_length=1)
    """The lengths n of the n-grams."""


@registry.register("distinct")
class Distinct(OfAllTexts):
    """Distinct-n: the share of a text's n-grams that are different, averaged over texts. Example: ``distinct:1,2``."""

    Config = DistinctConfig
    votes = ("distinct-3",)
    group, goal, decimals = metric.DIVERSITY, "human", 1

    def result(self) -> dict[str, Score]:
        """``distinct-n`` for every n that some text is long enough for."""
        known = distinct_by_length(self.texts(), self.config.n)
        if not known:
            raise UndefinedError(f"Distinct-n: no text has {min(self.config.n)} tokens")
        found = {}
        for n, shares in known.items():
            meaning = f"Distinct-{n}: different {n}-grams over {n}-grams within each text, averaged over texts."
            measure = self.measure(f"Distinct-{n}", f"fraction of {n}-grams of a text", meaning)
            found[f"distinct-{n}"] = Score.mean(measure, shares)
        return found


# -- uniq-seq and uniq: how many different tokens a system uses at all, in what it writes and in what it predicts.


class DistinctTokens:
    """Counts different tokens and all tokens; holds each different one once.

    Source: uniq and uniq-seq of Neural text generation with unlikelihood training (Welleck et al., 2020);
    Uniq of F2-Softmax (Choi et al., 2020).

    >>> seen = DistinctTokens.of([[5, 6, 5], [6, 7]])
    >>> seen.distinct, seen.tokens
    (3, 5)
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self.tokens = 0
        """Tokens read."""

    @classmethod
    def of(cls, texts: Iterable[Sequence[int]]) -> DistinctTokens:
        """Counts of several texts together."""
        found = cls()
        for text in texts:
            found.add(text)
        return found

    def add(self, text: Sequence[int]) -> None:
        """Reads one text."""
        self._seen.update(text)
        self.tokens += len(text)

    @property
    def distinct(self) -> int:
        """Different tokens read."""
        return len(self._seen)

    def score(self, measure: Measure) -> Score:
        """Their number, with the number of tokens that it grows with."""
        if not self.tokens:
            raise UndefinedError(f"{measure.title}: no sample has a token")
        return Score(measure, float(self.distinct), self.tokens)


class _Different(Metric):
    """Different tokens of all samples together."""

    Config = MetricConfig
    title: ClassVar[str]
    of: ClassVar[str]
    group, goal, decimals = metric.DIVERSITY, "human", 0
    meaning: ClassVar[str]

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._seen = DistinctTokens()

    def result(self) -> dict[str, Score]:
        measure = self.measure(self.title, f"tokens (different, of all {self.of})", f"{self.title}: {self.meaning}.")
        return {self.title: self._seen.score(measure)}


@registry.register("uniq-seq")
class UniqSeq(_Different):
    """uniq-seq: different tokens of all written texts together (Uniq of F2-Softmax). Example: ``uniq-seq``."""

    needs = ("tokens",)
    title, of = "uniq-seq", "texts"
    meaning = "different tokens of all texts together; more text has more, so compare equal numbers"

    def add(self, sample: Sample) -> None:
        """Reads the written text."""
        self._seen.add(sample.tokens.tolist())


@registry.register("uniq")
class Uniq(_Different):
    """uniq: different tokens among the most probable ones at held-out places; of texts: uniq-seq. Example: ``uniq``."""

    needs = ("predicted_token_ids",)
    title, of = "uniq", "predictions"
    meaning = "different tokens among the most probable ones at each held-out token; grows with their number"

    def add(self, sample: Sample) -> None:
        """Reads the predictions of one block."""
        self._seen.add(sample.need("predicted_token_ids", "uniq (uniq-seq counts the tokens of texts)"))
