"""n-gram diversity within texts, as a mean or product over lengths n, and Self-BLEU, the similarity between texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.distinct import distinct_and_all, share_of
from nextword.evaluation.metrics.metric import (
    MetricConfig,
    OfAllTexts,
    Order,
    OrdersConfig,
    Score,
    UndefinedError,
    registry,
)
from nextword.evaluation.metrics.ngrams import NGrams
from nextword.evaluation.metrics.statistics import Statistic
from nextword.evaluation.metrics.tokens import Texts, Tokenize, token_texts
from nextword.results.records import Measure

MEAN = (1, 2, 3, 4)
PRODUCT = (2, 3, 4)


def diversity_mean(texts: Texts, n: Sequence[int] = MEAN, tokenize: Tokenize = "words") -> Float[np.ndarray, "N"]:
    """For each text, the mean over the lengths in ``n`` of (distinct n-grams / all n-grams), shape (N,).

    NaN for a text that is shorter than one of the lengths.

    Source: Locally typical sampling (Meister et al., 2022), n = 1..4, as cited by HistAlign (Wan et al., 2023).

    Raises:
        ValueError: If ``texts`` is not a list of texts, or there is no length, or a length is below 1.

    >>> diversity_mean([[1, 2, 1, 2], [3]], n=[1, 2])
    array([0.58333333,        nan])
    """
    mean: Float[np.ndarray, "N"] = _shares(_counted(texts, n, tokenize)).mean(axis=1)
    return mean


def diversity_product(texts: Texts, n: Sequence[int] = PRODUCT, tokenize: Tokenize = "words") -> float:
    """The product of (sum_i distinct n-grams of text i) / (sum_i all n-grams of text i) over the lengths in ``n``.

    Each factor is 1 - rep_n, where rep_n is the share of repeated n-grams. An n-gram that occurs in two texts counts as
    distinct in both. NaN if for one of the lengths no text has an n-gram.

    Source: A contrastive framework for neural text generation (Su et al., 2022), n = 2..4; also Li et al. (2023).
    Differs from the code of Su et al., which leaves out the last n-gram of every text and rounds each rep_n to four
    digits.

    Raises:
        ValueError: If ``texts`` is not a list of texts, or there is no length, or a length is below 1.

    >>> round(diversity_product([[1, 2, 1, 2], [1, 2, 3]], n=[2, 3]), 6)
    0.8
    """
    return float(_product(_counted(texts, n, tokenize).sum(axis=0)))


def _counted(texts: Texts, n: Sequence[int], tokenize: Tokenize = "words") -> Float[np.ndarray, "N K2"]:
    """Numbers of distinct n-grams and of n-grams of each text, for every length."""
    if not n or min(n) < 1:
        raise ValueError(f"n-gram diversity: lengths must be 1 or more ({list(n)} given)")
    (found,) = token_texts(texts, tokenize=tokenize)
    by_length = list(found.ngrams_up_to(max(n)))
    columns = [column for one in n for column in distinct_and_all(by_length[one - 1])]
    return np.stack(columns, axis=1).astype(np.float64)


def _shares(counted: Float[np.ndarray, "... K2"]) -> Float[np.ndarray, "... K"]:
    return share_of(counted[..., 0::2], counted[..., 1::2])


def _product(counted: Float[np.ndarray, "... K2"]) -> Float[np.ndarray, "..."]:
    product: Float[np.ndarray, "..."] = _shares(counted).prod(axis=-1)
    return product


class DiversityConfig(MetricConfig):
    """Settings of n-gram diversity."""

    mean: tuple[Order, ...] = Field(default=MEAN, min_length=1)
    """Lengths n for the mean of the shares of distinct n-grams."""
    product: tuple[Order, ...] = Field(default=PRODUCT, min_length=1)
    """Lengths n for the product of the shares of distinct n-grams."""


@registry.register("diversity")
class Diversity(OfAllTexts):
    """n-gram diversity: mean and product, over lengths n, of the share of distinct n-grams. Example: ``diversity``."""

    Config = DiversityConfig
    group, goal, decimals = metric.DIVERSITY, "human", 1

    def result(self) -> dict[str, Score]:
        """``diversity-mean`` and ``diversity-product``, each only if a text has n-grams of all the score's lengths."""
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
            f"Diversity (mean): distinct n-grams divided by n-grams within each text, averaged over n = {lengths} and "
            f"over the texts of at least {max(n)} tokens.",
        )

    def _product_measure(self, n: tuple[int, ...]) -> Measure:
        lengths = ", ".join(map(str, n))
        return self.measure(
            "Diversity (product)",
            f"fraction (product of 1 - rep-n over n = {lengths}; last n-gram of a text counted, nothing rounded)",
            "Diversity (product): distinct n-grams of each text, summed over texts, divided by all n-grams, "
            f"multiplied over n = {lengths}.",
        )


# -- Self-BLEU: the similarity of each text to all other texts, in time linear in their number.

EPSILON = 0.1
"""Number that replaces a count of 0 matches (method 1 of Chen and Cherry, 2014)."""


def self_bleu(texts: Texts, n: Sequence[int] = (1, 2, 3), tokenize: Tokenize = "words") -> Float[np.ndarray, "K N"]:
    """BLEU of each of N texts with **all other texts** as references: (K, N), one row for each of K lengths in ``n``.

    Let c(g) be the count of an m-gram g in the text, and C(g) its largest count in any other text. Then
    p_m = sum_g min(c(g), C(g)) / sum_g c(g), where a numerator of 0 becomes 0.1 and a denominator of 0 becomes 1, and
    BLEU-n = b (p_1 ... p_n)^(1/n). Let L be the text's length and r the nearest length of another text (the shorter if
    two are equally near). Then b = exp(1 - r / L) if L <= r, and b = 1 otherwise. A text that is empty, or shares no
    token with any other text, has BLEU 0. Texts are not compared in pairs: for every text, C(g) is one of the two
    largest counts of g.

    Source: Texygen (Zhu et al., 2018). The values equal those of nltk's ``sentence_bleu`` with uniform weights and the
    smoothing ``method1``.

    Raises:
        ValueError: If there are fewer than two texts, or there is no length, or a length is below 1.

    >>> self_bleu(["to be or", "to be so", "no"], n=[1, 2]).round(4)
    array([[0.6667, 0.6667, 0.    ],
           [0.5774, 0.5774, 0.    ]])
    >>> self_bleu([[1, 2, 3], [1, 2, 4], [5]], n=[1, 2]).round(4)
    array([[0.6667, 0.6667, 0.    ],
           [0.5774, 0.5774, 0.    ]])
    """
    (found,) = token_texts(texts, tokenize=tokenize)
    if len(found) < 2 or not n or min(n) < 1:
        raise ValueError(
            f"self-BLEU: must have at least two texts and lengths of 1 or more ({len(found)} texts, n {list(n)} given)"
        )
    log_sum = np.zeros(len(found))
    shares_a_token = np.zeros(len(found), dtype=np.bool_)
    log_precision = []  # logarithms of the geometric means of p_1, of p_1 and p_2, ...
    for m, grams in enumerate(found.ngrams_up_to(max(n)), 1):
        matches = _matches(grams)
        if m == 1:
            shares_a_token = matches > 0
        log_sum = log_sum + np.log(np.where(matches > 0, matches, EPSILON) / np.maximum(grams.totals(), 1))
        log_precision.append(log_sum / m)
    bleu = _brevity_penalty(found.lengths) * np.exp(np.stack([log_precision[one - 1] for one in n]))
    return np.where(shares_a_token, bleu, 0.0)


class SelfBleuConfig(OrdersConfig):
    """Settings of Self-BLEU."""

    n: tuple[Order, ...] = Field(default=(1, 2, 3), min_length=1)
    """Lengths n of the longest n-grams, with one Self-BLEU-n each."""


@registry.register("self-bleu")
class SelfBleu(OfAllTexts):
    """Self-BLEU-n: BLEU of each text against all others, averaged; high if texts are similar. Example: ``self-bleu:3``.

    All texts are kept as token ids, because each is a reference for all others.
    """

    Config = SelfBleuConfig
    votes = ("self-bleu-3",)
    group, goal, decimals = metric.DIVERSITY, "human", 1

    def result(self) -> dict[str, Score]:
        """The scores, with the key ``self-bleu-n`` for every n."""
        texts = self.texts()
        if len(texts) < 2:
            raise UndefinedError(f"Self-BLEU: must have at least two texts ({len(texts)} given)")
        if not texts.lengths.any():
            raise UndefinedError("Self-BLEU: no text has a token")
        found = {}
        for n, values in zip(self.config.n, self_bleu(texts, self.config.n), strict=True):
            measure = self.measure(
                f"Self-BLEU-{n}",
                "fraction (BLEU against all other texts, smoothing method 1: 0.1 for no match)",
                f"Self-BLEU-{n}: BLEU with n-grams up to {n} of each text, with all other texts as references, "
                f"averaged; high if texts are similar.",
            )
            found[f"self-bleu-{n}"] = Score.mean(measure, values)
        return found


def _matches(grams: NGrams) -> Int[np.ndarray, "N"]:
    """Number of n-grams of each text that occur in another text, each clipped to its largest count in another text."""
    text, gram, count = grams.counts()
    largest = np.zeros(grams.distinct, dtype=np.int64)
    np.maximum.at(largest, gram, count)
    has_largest = count == largest[gram]
    # if only one text has the largest count, the largest count in its other texts is the second largest
    second = np.zeros(grams.distinct, dtype=np.int64)
    np.maximum.at(second, gram, np.where(has_largest, 0, count))
    alone = np.bincount(gram[has_largest], minlength=grams.distinct) == 1
    of_others = np.where(has_largest & alone[gram], second[gram], largest[gram])
    matches = np.bincount(text, weights=np.minimum(count, of_others), minlength=grams.number_of_texts)
    return matches.astype(np.int64)  # exact, because the sums are whole numbers far below 2^53


def _brevity_penalty(lengths: Int[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    """exp(1 - r / L) for a text of L tokens if L <= r, where r is the nearest length of another text. Otherwise 1."""
    own, which, times = np.unique(lengths, return_inverse=True, return_counts=True)
    below = np.append(-np.inf, own[:-1])
    above = np.append(own[1:], np.inf)
    nearest = np.where(own - below <= above - own, below, above)
    nearest = np.where(times > 1, own, nearest)
    # an empty text has no matches, so its penalty has no effect
    penalty: Float[np.ndarray, "L"] = np.where(own > nearest, 1.0, np.exp(1 - nearest / np.maximum(own, 1)))
    of_texts: Float[np.ndarray, "N"] = penalty[which]
    return of_texts
