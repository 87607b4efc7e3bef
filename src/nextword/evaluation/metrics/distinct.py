"""Distinct-n: lexical diversity within a text; uniq and uniq-seq: number of different tokens that a system uses."""

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
    """Distinct n-grams divided by all n-grams **within each text**, (N,). NaN for a text without n-grams.

    Source: F2-Softmax (Choi et al., 2020, section 4.1), which counts within each text. Li et al. (2016) count over the
        whole corpus and divide by tokens, which gives other values.

    Raises:
        ValueError: If ``texts`` is not a list of texts, or ``n`` is below 1.

    >>> distinct(["to be to be", "so"], 2)
    array([0.66666667,        nan])
    >>> distinct([[1, 2, 1, 2], [3]], 2)
    array([0.66666667,        nan])
    """
    (found,) = token_texts(texts, tokenize=tokenize)
    return share_of(*distinct_and_all(found.ngrams(n)))


def distinct_and_all(grams: NGrams) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """For each text, the number of distinct n-grams (N,), and the number of all n-grams (N,).

    >>> [counts.tolist() for counts in distinct_and_all(TokenTexts.of([[1, 2, 1, 2], [3]]).ngrams(2))]
    [[2, 0], [3, 0]]
    """
    owner, _, _ = grams.counts()
    return np.bincount(owner, minlength=grams.number_of_texts), grams.totals()


def share_of(found: Num[np.ndarray, "... K"], total: Num[np.ndarray, "... K"]) -> Float[np.ndarray, "... K"]:
    """``found`` divided by ``total``. NaN where ``total`` is 0."""
    with np.errstate(invalid="ignore"):
        shares: Float[np.ndarray, "... K"] = found / total
    return shares


def distinct_by_length(texts: TokenTexts, n: Sequence[int]) -> dict[int, Float[np.ndarray, "N"]]:
    """Map lengths in ``n`` to the results of ``distinct``. Lengths of which no text has an n-gram are left out."""
    by_length = list(texts.ngrams_up_to(max(n)))
    shares = {one: share_of(*distinct_and_all(by_length[one - 1])) for one in n}
    return {one: values for one, values in shares.items() if not np.isnan(values).all()}


class DistinctConfig(OrdersConfig):
    """Settings of Distinct-n."""

    n: tuple[Order, ...] = Field(default=(1, 2, 3), min_length=1)
    """The lengths n of the n-grams."""


@registry.register("distinct")
class Distinct(OfAllTexts):
    """Distinct-n: share of distinct n-grams within each text, averaged over texts. Example: ``distinct:1,2``."""

    Config = DistinctConfig
    votes = ("distinct-3",)
    group, goal, decimals = metric.DIVERSITY, "human", 1

    def result(self) -> dict[str, Score]:
        """The scores, with the key ``distinct-n`` for every n for which some text has an n-gram."""
        known = distinct_by_length(self.texts(), self.config.n)
        if not known:
            raise UndefinedError(f"Distinct-n: no text has {min(self.config.n)} tokens")
        found = {}
        for n, shares in known.items():
            meaning = f"Distinct-{n}: distinct {n}-grams divided by {n}-grams within each text, averaged over texts."
            measure = self.measure(f"Distinct-{n}", f"fraction of {n}-grams of a text", meaning)
            found[f"distinct-{n}"] = Score.mean(measure, shares)
        return found


# -- uniq-seq and uniq: the number of distinct tokens in a system's texts and in its predictions.


class DistinctTokens:
    """Counts distinct tokens and all tokens. Each distinct token is stored only once.

    Source: uniq and uniq-seq of Neural text generation with unlikelihood training (Welleck et al., 2020);
    Uniq of F2-Softmax (Choi et al., 2020).

    >>> seen = DistinctTokens.of([[5, 6, 5], [6, 7]])
    >>> seen.distinct, seen.tokens
    (3, 5)
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self.tokens = 0
        """Number of tokens read."""

    @classmethod
    def of(cls, texts: Iterable[Sequence[int]]) -> DistinctTokens:
        """Count the tokens of all ``texts`` together."""
        found = cls()
        for text in texts:
            found.add(text)
        return found

    def add(self, text: Sequence[int]) -> None:
        """Count the tokens of one more ``text``."""
        self._seen.update(text)
        self.tokens += len(text)

    @property
    def distinct(self) -> int:
        """Number of distinct tokens read."""
        return len(self._seen)

    def score(self, measure: Measure) -> Score:
        """The number of distinct tokens as a score, whose ``n`` counts all tokens. UndefinedError without tokens."""
        if not self.tokens:
            raise UndefinedError(f"{measure.title}: no sample has a token")
        return Score(measure, float(self.distinct), self.tokens)


class _Different(Metric):
    """Counts distinct tokens over all samples."""

    Config = MetricConfig
    title: ClassVar[str]
    of: ClassVar[str]
    group, goal, decimals = metric.DIVERSITY, "human", 0
    meaning: ClassVar[str]

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._seen = DistinctTokens()

    def result(self) -> dict[str, Score]:
        measure = self.measure(self.title, f"distinct tokens of all {self.of}", f"{self.title}: {self.meaning}.")
        return {self.title: self._seen.score(measure)}


@registry.register("uniq-seq")
class UniqSeq(_Different):
    """uniq-seq: distinct tokens of all generated texts together (Uniq in F2-Softmax). Example: ``uniq-seq``."""

    needs = ("tokens",)
    title, of = "uniq-seq", "texts"
    meaning = "distinct tokens of all texts together; compare only equal amounts of text"

    def add(self, sample: Sample) -> None:
        """Read the generated text."""
        self._seen.add(sample.tokens.tolist())


@registry.register("uniq")
class Uniq(_Different):
    """uniq: distinct tokens among a model's top predictions at held-out positions. Example: ``uniq``."""

    needs = ("predicted_token_ids",)
    title, of = "uniq", "predictions"
    meaning = "distinct tokens among the top predictions at held-out positions; compare only equal numbers of positions"

    def add(self, sample: Sample) -> None:
        """Read the predictions of one sample."""
        self._seen.add(sample.need("predicted_token_ids", "uniq (for generated texts, use uniq-seq)"))
