"""MS-Jaccard: similarity of the n-gram counts of generated and human texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
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
from nextword.evaluation.metrics.ngrams import TokenTexts
from nextword.evaluation.metrics.sample import MissingFieldError, Sample
from nextword.evaluation.metrics.tokens import Texts, Tokenize, token_texts


def ms_jaccard(
    generated: Texts,
    references: Texts,
    n: Sequence[int] = (1, 2, 3),
    tokenize: Tokenize = "words",
) -> Float[np.ndarray, "K"]:
    """For each length in ``n`` (K,): geometric mean over m = 1..n of the Jaccard index of generated and human m-grams.

    Let c_m(g; S) = (count of the m-gram g in the texts S) / (number of texts). Then
    J_m = sum_g min(c_m(g; S1), c_m(g; S2)) / sum_g max(c_m(g; S1), c_m(g; S2)), and
    MS-Jaccard-n = (J_1 ... J_n)^(1/n), where S1 are the generated texts and S2 the references. S1 and S2 may have
    different numbers of texts. NaN if neither S1 nor S2 has an n-gram. Exchanging S1 and S2 does not change the value.

    Source: Jointly measuring diversity and quality in text generation models (Alihosseini et al., 2019).

    Raises:
        ValueError: If ``generated``, ``references`` or ``n`` is empty, or a length is below 1.

    >>> ms_jaccard([[1, 2, 3]], [[1, 2, 4], [1, 2, 3]], n=[1, 2]).round(4)
    array([0.7143, 0.6547])
    """
    first, second = token_texts(generated, references, tokenize=tokenize, of="generated and references")
    if not len(first) or not len(second) or not n or min(n) < 1:
        raise ValueError(
            f"MS-Jaccard: must have texts on both sides and lengths of 1 or more ({len(first)} generated texts, "
            f"{len(second)} references, n {list(n)} given)"
        )
    indices = []
    for grams in first.joined(second).ngrams_up_to(max(n)):
        of_first = grams.texts < len(first)
        # with the common denominator |S1| |S2|, all numbers are whole
        a = np.bincount(grams.ids[of_first], minlength=grams.distinct) * len(second)
        b = np.bincount(grams.ids[~of_first], minlength=grams.distinct) * len(first)
        union = int(np.maximum(a, b).sum())
        indices.append(int(np.minimum(a, b).sum()) / union if union else np.nan)
    return np.array([np.prod(indices[:one]) ** (1 / one) for one in n])


class MsJaccardConfig(OrdersConfig):
    """Settings of MS-Jaccard."""

    n: tuple[Order, ...] = Field(default=(1, 2, 3), min_length=1)
    """Lengths n of the longest n-grams, with one MS-Jaccard-n each."""


@registry.register("ms-jaccard")
class MsJaccard(Metric):
    """MS-Jaccard-n: similarity of the n-gram counts of texts and references. Example: ``ms-jaccard:2``."""

    Config = MsJaccardConfig
    needs = ("tokens", "reference_tokens")
    votes = ("ms-jaccard-3",)
    group, goal, decimals = metric.CLOSENESS, "higher", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._generated: list[Int[np.ndarray, "T"]] = []
        self._references: list[Int[np.ndarray, "T"]] = []

    def add(self, sample: Sample) -> None:
        """Read the generated text and its first reference."""
        if not sample.reference_tokens:
            raise MissingFieldError(
                f"{sample.place}: 'reference_token_ids' must have a reference for MS-Jaccard (none given)"
            )
        self._generated.append(sample.tokens)
        self._references.append(sample.reference_tokens[0])

    def result(self) -> dict[str, Score]:
        """The scores, with the key ``ms-jaccard-n`` for every n for which a text or first reference has an n-gram."""
        if not self._generated:
            raise UndefinedError("MS-Jaccard: no text")
        found = ms_jaccard(TokenTexts.of(self._generated), TokenTexts.of(self._references), self.config.n)
        known = {n: float(value) for n, value in zip(self.config.n, found, strict=True) if not np.isnan(value)}
        if not known:
            raise UndefinedError(f"MS-Jaccard: no text or reference has {min(self.config.n)} tokens")
        scores = {}
        for n, value in known.items():
            measure = self.measure(
                f"MS-Jaccard-{n}",
                f"fraction (geometric mean up to {n}-grams, counts per text, first reference)",
                f"MS-Jaccard-{n}: n-grams up to {n} shared by texts and references (minimum of their counts), divided "
                "by the n-grams of either (maximum of their counts).",
            )
            scores[f"ms-jaccard-{n}"] = Score(measure, value, len(self._generated))
        return scores
