"""CIDEr-D: n-grams in common with the references. An n-gram in the references of few samples has more weight."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Order, Score, Setup, UndefinedError, registry
from nextword.evaluation.metrics.ngrams import NGrams
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import WORD, Text, Words, expect_references, token_texts
from nextword.runtime.corpora.words import find

Cut = Literal["words", "spaces"]

_WORD = re.compile(rf"{WORD}(?:['’]{WORD})*")
_CUTS: dict[Cut, Callable[[str], list[str]]] = {
    "words": lambda text: find(_WORD, text.lower()),
    "spaces": str.split,
}
_CUT_NAMES: dict[Cut, str] = {"words": "lower-case words without punctuation", "spaces": "tokens as given"}


def cider_d(
    texts: Sequence[Text],
    references: Sequence[Sequence[Text]],
    n: int = 4,
    sigma: float = 6.0,
    cut: Cut = "words",
) -> Float[np.ndarray, "N"]:
    """CIDEr-D of each of N texts, (N,), from 0 to 10.

    An n-gram g that occurs c_g times in a text has weight w_g = c_g · log(N / max(1, d_g)), where d_g is the number of
    samples with g in a reference. For a text x and a reference y, with ‖·‖ the norm of the weights of all m-grams,

        sim_m(x, y) = exp(-(b_x - b_y)² / 2σ²) · Σ_g min(w_g(x), w_g(y)) · w_g(y) / (‖w(x)‖ · ‖w(y)‖)

    where b is the number of 2-grams and σ is ``sigma``. CIDEr-D(x) is 10 times the mean of sim_m(x, y) over m = 1..n
    and the references y.

    Source: Vedantam, Zitnick and Parikh (2015). The result equals that of the COCO caption evaluation, which also uses
    the number of 2-grams (tokens minus one) as the length. Time: O(T log T) for T tokens.

    Each text needs at least one reference of its own type, a string or token ids. ``cut`` sets the tokenization of
    strings: "words" (lower case, without punctuation) or "spaces" (split at white space).

    Raises:
        ValueError: If there are no texts, strings are mixed with token ids, or ``references`` does not have a
            list for every text, or one of the lists is empty.

    >>> cider_d([[1, 2, 3], [4, 5, 6], [7]], [[[1, 2, 3]], [[4, 5, 7]], [[6], [7]]], n=2).round(3)
    array([10.  ,  6.45,  2.5 ])
    """
    expect_references(references, "cider")
    if len(texts) != len(references):
        raise ValueError(
            f"cider: must have references for each text ({len(texts)} texts, references for {len(references)} given)"
        )
    if not all(references):
        raise ValueError("cider: each text must have a reference (a text without one given)")
    sizes = np.array([len(found) for found in references], dtype=np.int64)
    number = len(texts)
    sample_of = np.concatenate([np.arange(number), np.repeat(np.arange(number), sizes)])
    everything = [*texts, *(reference for found in references for reference in found)]
    (tokens,) = token_texts(everything, tokenize=_CUTS[cut], of="cider")
    pairs = np.maximum(tokens.lengths - 1, 0)
    penalty = np.exp(-((pairs[number:] - pairs[sample_of[number:]]) ** 2) / (2 * sigma**2))
    total = np.zeros(len(sample_of) - number)
    for grams in tokens.ngrams_up_to(n):
        total += _similarities(grams, number, sample_of)
    per_reference = 10.0 * penalty * total / n
    means: Float[np.ndarray, "N"] = np.bincount(sample_of[number:], per_reference, minlength=number) / sizes
    return means


def _similarities(grams: NGrams, number: int, sample_of: Int[np.ndarray, "R"]) -> Float[np.ndarray, "R"]:
    """Clipped cosine over n-grams between every reference and its text."""
    owner, gram, count = grams.counts()
    size = max(grams.distinct, 1)
    place = sample_of[owner] * size + gram  # the same number for an n-gram in a text and in its references
    written = owner < number
    having = np.bincount(np.unique(place[~written]) % size, minlength=size)
    weight = count * (np.log(number) - np.log(np.maximum(having, 1)))[gram]
    norm = np.sqrt(np.bincount(owner, weight**2, minlength=grams.number_of_texts))
    # in ascending order, because texts come before references, and each text's n-grams are sorted
    known, theirs = np.append(place[written], -1), np.append(weight[written], 0.0)
    at = np.searchsorted(known[:-1], place[~written])
    common = np.where(known[at] == place[~written], np.minimum(theirs[at], weight[~written]), 0.0) * weight[~written]
    dots = np.bincount(owner[~written] - number, common, minlength=grams.number_of_texts - number)
    scale = norm[number:] * norm[sample_of[number:]]
    cosines: Float[np.ndarray, "R"] = np.zeros(len(dots))
    np.divide(dots, scale, out=cosines, where=scale > 0)
    return cosines


class CiderConfig(MetricConfig):
    """Settings of CIDEr-D."""

    n: Order = 4
    """Length n of the longest n-grams."""
    sigma: float = Field(default=6.0, gt=0)
    """Standard deviation σ of the penalty on length differences, in tokens."""
    cut: Cut = "words"
    """Tokenization: "words" (lower case, without punctuation) or "spaces" (split at white space, unchanged)."""


@registry.register("cider")
class Cider(Metric):
    """CIDEr-D: n-grams shared with references, from 0 to 10; rare n-grams count more. Example: ``cider``."""

    Config = CiderConfig
    needs = ("text", "references")
    group, goal, decimals = metric.SUMMARY, "higher", 3

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._words = Words(_CUTS[self.config.cut])
        self._texts: list[Int[np.ndarray, "T"]] = []
        self._references: list[list[Int[np.ndarray, "T"]]] = []

    def add(self, sample: Sample) -> None:
        """Read and keep the text and its references, because the weights of n-grams depend on all references."""
        self._texts.append(self._words.ids(sample.need("text", "cider")))
        self._references.append([self._words.ids(reference) for reference in sample.need("references", "cider")])

    def result(self) -> dict[str, Score]:
        """The score, with the key ``cider-d``."""
        if len(self._texts) < 2:
            raise UndefinedError(
                "cider: must have at least two samples, because n-grams are weighted by the number of samples with them"
            )
        values = cider_d(self._texts, self._references, self.config.n, self.config.sigma)
        # a sample whose references have no words has no value
        values[[not any(map(len, found)) for found in self._references]] = np.nan
        measure = self.measure(
            "CIDEr-D",
            f"0 to 10 ({_CUT_NAMES[self.config.cut]}, n to {self.config.n}, sigma {self.config.sigma:g}, "
            "document frequencies of these references)",
            "CIDEr-D: n-grams in common with the references; an n-gram in fewer samples counts more.",
        )
        return {"cider-d": Score.mean(measure, values)}
