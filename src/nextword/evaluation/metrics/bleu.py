"""BLEU over a corpus, from sacrebleu's counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import (
    Metric,
    MetricConfig,
    Order,
    OrdersConfig,
    Score,
    Setup,
    UndefinedError,
    registry,
)
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.statistics import Statistic
from nextword.evaluation.metrics.tokens import expect_references

Tokenize = Literal["13a", "intl", "char", "zh", "none"]


def bleu(
    texts: Iterable[str], references: Iterable[Sequence[str]], n: int = 4, scorer: Any = None
) -> tuple[float, Float[np.ndarray, "N K"]]:
    """Corpus BLEU-n, and the counts of each text that it is made of.

    With c the tokens of all texts, r those of the closest references, and p_m the share of m-grams that a reference
    has, each counted at most as often as the reference that has it most,

        BLEU-n = min(1, exp(1 - r / c)) · (p_1 · ... · p_n)^(1/n)

    Where no m-gram is found, p_m is 1 / (2^k · m-grams) for the k-th such m ("exp" smoothing). The value lies between 0
    and 1. Source: Papineni et al. (2002), in the reading of sacrebleu (Post, 2018), which it equals.

    ``scorer`` is a ``sacrebleu.metrics.BLEU`` that cuts and counts; None: sacrebleu's defaults.

    >>> value, counts = bleu(["the cat sat on the mat"], [["the cat sat on a mat"]], n=2)
    >>> round(value, 4), counts.tolist()
    (0.7071, [[6.0, 6.0, 5.0, 3.0, 6.0, 5.0]])
    """
    texts, references = list(texts), list(references)
    expect_references(references, "bleu")
    counting = scorer or bleu_scorer(n)
    rows = [sentence_counts(counting, text, list(found)) for text, found in zip(texts, references, strict=True)]
    counts = np.array(rows, dtype=np.float64).reshape(len(rows), 2 + 2 * counting.max_ngram_order)
    return float(bleu_of_sums(counts.sum(axis=0), n)), counts


def bleu_scorer(n: int = 4, tokenize: Tokenize = "13a", lowercase: bool = False) -> Any:
    """BLEU of sacrebleu up to n-grams, set to count for single sentences."""
    from sacrebleu.metrics.bleu import BLEU

    # "effective order" changes no counts; without it sacrebleu warns at every sentence.
    return BLEU(lowercase=lowercase, tokenize=tokenize, max_ngram_order=n, effective_order=True)


def sentence_counts(scorer: Any, text: str, references: list[str]) -> list[float]:
    """Tokens, tokens of the closest reference, right m-grams for each m, all m-grams for each m."""
    found = scorer.sentence_score(text, references)
    return [found.sys_len, found.ref_len, *found.counts, *found.totals]


def bleu_of_sums(sums: Float[np.ndarray, "... K"], n: int) -> Float[np.ndarray, "..."]:
    """Corpus BLEU-n from summed counts, which may go beyond n.

    >>> bleu_of_sums(np.array([[6, 6, 5, 3, 6, 5], [3, 6, 3, 0, 3, 2]], dtype=np.float64), 2).round(4)
    array([0.7071, 0.1839])
    """
    highest = (sums.shape[-1] - 2) // 2
    length, wanted = sums[..., 0], sums[..., 1]
    right, total = sums[..., 2 : 2 + n], sums[..., 2 + highest : 2 + highest + n]
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = (right == 0) & (total > 0)
        precisions = np.where(missed, 0.5 ** missed.cumsum(axis=-1), right) / total
        # Texts too short for any m-gram: the precision is 0, and so is the product.
        logs = np.where(total > 0, np.log(precisions), -np.inf)
        brevity = np.where(length < wanted, np.exp(1 - wanted / length), 1.0)
        value: Float[np.ndarray, "..."] = np.where(right.any(axis=-1), brevity * np.exp(logs.mean(axis=-1)), 0.0)
    return value


class BleuConfig(OrdersConfig):
    """Settings of BLEU."""

    n: tuple[Order, ...] = Field(default=(1, 2, 3, 4), min_length=1)
    """The lengths n of the longest n-grams."""
    tokenize: Tokenize = "13a"
    """How sacrebleu cuts texts: "13a", "intl" (Unicode punctuation), "char", "zh" or "none" (at spaces)."""
    lowercase: bool = False
    """Whether upper and lower case are the same."""


@registry.register("bleu")
class Bleu(Metric):
    """BLEU over all texts, from sacrebleu's counts. Example: ``bleu:4``."""

    Config = BleuConfig
    needs = ("text", "references")
    packages = ("sacrebleu",)
    votes = ("bleu-4",)
    group, goal, decimals = metric.SUMMARY, "higher", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._scorer: Any = None
        self._counts: list[list[float]] = []
        self._any_word = False

    def add(self, sample: Sample) -> None:
        """Reads text and references."""
        config: BleuConfig = self.config
        self._scorer = self._scorer or bleu_scorer(max(config.n), config.tokenize, config.lowercase)
        text, references = sample.need("text", "bleu"), sample.need("references", "bleu")
        self._counts.append(sentence_counts(self._scorer, text, references))
        self._any_word = self._any_word or any(not reference.isspace() for reference in references if reference)

    def result(self) -> dict[str, Score]:
        """``bleu-n`` for every n."""
        if not self._any_word:
            raise UndefinedError("bleu: no reference has a word")
        counts = np.array(self._counts, dtype=np.float64)
        signature, found = self._signature(), {}
        for n in self.config.n:
            measure = self.measure(
                f"BLEU-{n}",
                f"fraction (sacrebleu {signature})",
                f"BLEU-{n} over all texts: geometric mean of the shares of n-grams up to {n} that a reference has, "
                "lowered where the texts are shorter than the references.",
            )
            found[f"bleu-{n}"] = Score.of(measure, Statistic(counts, partial(bleu_of_sums, n=n)), len(counts))
        return found

    def _signature(self) -> str:
        # Sacrebleu's own, without the number of references, which differs between a system and the human row.
        from sacrebleu.metrics.bleu import BLEU

        plain = BLEU(lowercase=self.config.lowercase, tokenize=self.config.tokenize)
        plain.corpus_score(["-"], [["-"]])  # it signs only what it has scored
        return str(plain.get_signature()).partition("|")[2]
