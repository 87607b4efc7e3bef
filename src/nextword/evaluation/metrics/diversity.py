"""n-gram diversity: how little texts repeat themselves, over n-grams of several lengths, as a mean and as a product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.distinct import distinct_and_all
from nextword.evaluation.metrics.metric import MetricConfig, OfAllTexts, Order, Score, UndefinedError, registry
from nextword.evaluation.metrics.statistics import Statistic
from nextword.evaluation.metrics.tokens import Texts, Tokenize, token_texts
from nextword.results.records import Measure

MEAN = (1, 2, 3, 4)
PRODUCT = (2, 3, 4)


def diversity_mean(texts: Texts, n: Sequence[int] = MEAN, tokenize: Tokenize = "words") -> Float[np.ndarray, "N"]:
    """(1/K) sum_n distinct n-grams / n-grams of each text, over the K lengths in ``n``.

    NaN for a text without n-grams of one of them.

    Source: Locally typical sampling (Meister et al., 2022), n = 1..4, as HistAlign (Wan et al., 2023) cites it.

    Raises:
        ValueError: No list of texts, or no length, or one below 1.

    >>> diversity_mean([[1, 2, 1, 2], [3]], n=[1, 2])
    array([0.58333333,        nan])
    """
    mean: Float[np.ndarray, "N"] = _shares(_counted(texts, n, tokenize)).mean(axis=1)
    return mean


def diversity_product(texts: Texts, n: Sequence[int] = PRODUCT, tokenize: Tokenize = "words") -> float:
    """prod_n (1 - rep_n), rep_n = 1 - (sum_i distinct n-grams of text i) / (sum_i n-grams of text i).

    An n-gram that occurs in two texts counts as distinct in both. NaN where no text has n-grams of one of the lengths.

    Source: A contrastive framework for neural text generation (Su et al., 2022), n = 2..4; also Li et al. (2023).
    Differs from the code of Su et al., which leaves out the last n-gram of every text and rounds each rep_n to four
    digits.

    Raises:
        ValueError: No list of texts, or no length, or one below 1.

    >>> round(diversity_product([[1, 2, 1, 2], [1, 2, 3]], n=[2, 3]), 6)
    0.8
    """
    return float(_product(_counted(texts, n, tokenize).sum(axis=0)))


def _counted(texts: Texts, n: Sequence[int], tokenize: Tokenize = "words") -> Float[np.ndarray, "N K2"]:
    """Different n-grams and n-grams of each text, for every length side by side."""
    if not n or min(n) < 1:
        raise ValueError(f"n-gram diversity: lengths must be from 1 ({list(n)} given)")
    (found,) = token_texts(texts, tokenize=tokenize)
    by_length = list(found.ngrams_up_to(max(n)))
    columns = [column for one in n for column in distinct_and_all(by_length[one - 1])]
    return np.stack(columns, axis=1).astype(np.float64)


def _shares(counted: Float[np.ndarray, "... K2"]) -> Float[np.ndarray, "... K"]:
    found, total = counted[..., 0::2], counted[..., 1::2]
    with np.errstate(invalid="ignore"):
        return np.where(total > 0, found / total, np.nan)


def _product(counted: Float[np.ndarray, "... K2"]) -> Float[np.ndarray, "..."]:
    product: Float[np.ndarray, "..."] = _shares(counted).prod(axis=-1)
    return product


class DiversityConfig(MetricConfig):
    """Settings of n-gram diversity."""

    mean: tuple[Order, ...] = Field(default=MEAN, min_length=1)
    """The lengths n whose shares of distinct n-grams are averaged."""
    product: tuple[Order, ...] = Field(default=PRODUCT, min_length=1)
    """The lengths n whose shares of distinct n-grams are multiplied."""


@registry.register("diversity")
class Diversity(OfAllTexts):
    """n-gram diversity: shares of different n-grams in texts, their mean and their product. Example: ``diversity``."""

    Config = DiversityConfig
    group, goal, decimals = metric.DIVERSITY, "human", 1

    def result(self) -> dict[str, Score]:
        """``diversity-mean`` and ``diversity-product``, those that the texts are long enough for."""
        mean, product = self.config.mean, self.config.product
        texts = self.texts()
        counted = _counted(texts, mean + product)
        to_average, to_multiply = counted[:, : 2 * len(mean)], counted[:, 2 * len(mean) :]
        longest = int(texts.lengths.max(initial=0))
        scores = {}
        if longest >= max(mean):
            scores["diversity-mean"] = Score.mean(self._mean_measure(mean), _shares(to_average).mean(axis=1))
        if longest >= max(product):
            statistic, texts_with_any = Statistic(to_multiply, _product), int((to_multiply[:, 1] > 0).sum())
            scores["diversity-product"] = Score.of(self._product_measure(product), statistic, texts_with_any)
        if not scores:
            raise UndefinedError(f"n-gram diversity: no text has {min(max(mean), max(product))} tokens")
        return scores

    def _mean_measure(self, n: tuple[int, ...]) -> Measure:
        lengths = ", ".join(map(str, n))
        return self.measure(
            "Diversity (mean)",
            f"fraction of n-grams of a text (mean over n = {lengths})",
            f"Diversity (mean): different n-grams over n-grams within each text, averaged over n = {lengths} and over "
            f"the texts of at least {max(n)} tokens.",
        )

    def _product_measure(self, n: tuple[int, ...]) -> Measure:
        lengths = ", ".join(map(str, n))
        return self.measure(
            "Diversity (product)",
            f"fraction (product of 1 - rep-n over n = {lengths}; last n-gram of a text counted, nothing rounded)",
            "Diversity (product): different n-grams of each text, summed over texts, over all n-grams, multiplied over "
            f"n = {lengths}.",
        )
