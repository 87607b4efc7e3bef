"""Frequency groups: the shares of frequent, medium, rare and very rare tokens in texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from jaxtyping import Int
from pydantic import model_validator

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry
from nextword.evaluation.metrics.ngrams import TokenTexts
from nextword.evaluation.metrics.sample import AllOrNone, Sample
from nextword.evaluation.metrics.tokens import CountedTokens, Words

BOUNDARIES = (0.4, 0.7, 0.9)
NAMES = ("frequent", "medium", "rare", "very rare")


def frequency_groups(
    counts: Sequence[int] | Int[np.ndarray, "V"], boundaries: Sequence[float] = BOUNDARIES
) -> Int[np.ndarray, "V"]:
    """Group of each token id, (V,), from its count in a corpus. Group 0 has the most frequent tokens.

    Tokens are sorted by ``counts``, the largest first, and equal counts by id. ``boundaries`` are the shares of the
    corpus at which groups end: by default, the tokens of group 0 make up the first 40 % of the corpus. A token whose
    share of the corpus begins before a boundary and ends after the boundary belongs to the more frequent group. Tokens
    with count 0 are in the last group.

    Source: F2-Softmax (Choi et al., 2020), figure 2: up to 40 % frequent, the last 10 % very rare. F2-Softmax does not
        state the boundary between medium and rare; we use 70 %.

    >>> frequency_groups([1, 4, 3, 2, 0]).tolist()
    [3, 0, 1, 2, 3]
    """
    counted = np.asarray(counts, dtype=np.int64)
    if list(boundaries) != sorted(set(boundaries)) or not all(0 < boundary < 1 for boundary in boundaries):
        raise ValueError(
            f"frequency groups: boundaries must be ascending numbers between 0 and 1 ({list(boundaries)} given)"
        )
    if counted.ndim != 1 or not counted.any() or counted.min() < 0:
        raise ValueError("frequency groups: counts must be a list of numbers of 0 or more, at least one above 0")
    order = np.argsort(-counted, kind="stable")
    before = np.cumsum(counted[order]) - counted[order]
    # exact arithmetic, so that 0.7 means seven tenths, and a token that begins at 0.7 is not below this boundary
    ends = [math.ceil(Fraction(str(boundary)) * int(counted.sum())) for boundary in boundaries]
    found = np.empty(len(counted), dtype=np.int64)
    found[order] = np.where(counted[order] > 0, np.searchsorted(ends, before, side="right"), len(ends))
    return found


def tokens_per_group(texts: TokenTexts, group_of: Int[np.ndarray, "V"], number: int) -> Int[np.ndarray, "N G"]:
    """Number of tokens of each of the N ``texts`` in each of ``number`` groups, (N, ``number``).

    ``group_of`` (V,) is a result of ``frequency_groups``. A token id of V or more belongs to the last group.

    >>> tokens_per_group(TokenTexts.of([[0, 1, 1], [9]]), np.array([0, 1]), 3).tolist()
    [[1, 2, 0], [0, 0, 1]]
    """
    if len(texts.tokens) and texts.tokens.min() < 0:
        raise ValueError(f"frequency groups: token ids must be 0 or more ({texts.tokens.min()} given)")
    group = np.append(group_of, number - 1)[np.minimum(texts.tokens, len(group_of))]
    text = np.repeat(np.arange(len(texts)), texts.lengths)
    return np.bincount(text * number + group, minlength=len(texts) * number).reshape(len(texts), number)


class FrequencyGroupsConfig(MetricConfig):
    """Settings of the frequency groups."""

    boundaries: tuple[float, float, float] = BOUNDARIES
    """Cumulative shares of the corpus at which the frequent, medium and rare groups end."""
    counts: str | None = None
    """Path of a file of ``nextword count``, or a .npy file with the count of each token id."""
    corpus: str | None = None
    """Path of a text file whose tokens are counted. If neither ``counts`` nor ``corpus`` is given, tokens are counted
    in the references."""

    @model_validator(mode="after")
    def _fit(self) -> FrequencyGroupsConfig:
        if self.counts is not None and self.corpus is not None:
            raise ValueError("counts, corpus: must not both be given; leave one out")
        frequency_groups([1], self.boundaries)
        return self


@registry.register("frequency-groups")
class FrequencyGroups(Metric):
    """Shares of frequent, medium, rare and very rare tokens. Example: ``frequency-groups``."""

    Config = FrequencyGroupsConfig
    needs = ("tokens",)
    votes = ("vr",)
    group, goal, decimals = metric.FREQUENCY, "human", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._texts: list[Int[np.ndarray, "T"]] = []
        self._references: Counter[int] = Counter()
        self._references_given = AllOrNone("references")
        self._counts: CountedTokens | None = None
        if self.config.counts is not None:
            self._counts = CountedTokens.load(self.config.counts, setup.unit, "frequency-groups.counts")
        elif self.config.corpus is not None:
            self._counts = CountedTokens.of_corpus(self.config.corpus, setup.unit, "frequency-groups.corpus")

    def add(self, sample: Sample) -> None:
        """Read the generated text and, without ``counts`` and ``corpus``, count the tokens of the references."""
        if self.config.counts is not None and sample.token_ids is None and isinstance(sample.unit, Words):
            raise ValueError(
                f"{sample.place}: frequency-groups.counts has counts of token ids, but this sample has only text; "
                "name the tokenizer, add token_ids, or give frequency-groups.corpus"
            )
        self._texts.append(sample.tokens)
        if self._counts is None:
            present = bool(sample.references) or bool(sample.reference_token_ids)
            if self._references_given.has(sample, present):
                for reference in sample.reference_tokens:
                    self._references.update(reference.tolist())

    def result(self) -> dict[str, Score]:
        """``share-frequent`` to ``share-very-rare`` of all tokens, and ``vr``, the mean share of very rare tokens."""
        counts = self._counts or CountedTokens.of(self._references, "the references")
        if not len(counts.ids):
            raise UndefinedError(
                "frequency groups: must have token frequencies (none given); give references, "
                "frequency-groups.counts or frequency-groups.corpus"
            )
        texts = TokenTexts.of(self._texts)
        places = TokenTexts(counts.places(texts.tokens), texts.lengths)
        order = self.setup.unit.order(counts.ids)  # words with equal counts are sorted, not in the order of reading
        group_of = np.empty_like(order)
        group_of[order] = frequency_groups(counts.counts[order], self.config.boundaries)
        found = tokens_per_group(places, group_of, len(NAMES)).astype(np.float64)
        lengths, source, ends = found.sum(axis=1), counts.source, (0.0, *self.config.boundaries, 1.0)
        scores = {}
        for number, name in enumerate(NAMES):
            measure = self.measure(
                f"{name} tokens",
                f"fraction of generated tokens (frequencies of {source})",
                f"{name.capitalize()} tokens: share of generated tokens in the group that makes up "
                f"{100 * ends[number]:g} to {100 * ends[number + 1]:g} % of {source}, most frequent first.",
            )
            scores[f"share-{name.replace(' ', '-')}"] = Score.ratio(measure, found[:, number], lengths)
        very_rare = self.measure(
            "VR",
            f"fraction of tokens of a text (frequencies of {source})",
            "VR: share of very rare tokens in a text, averaged over texts; very rare tokens are those beyond the first "
            f"{100 * ends[-2]:g} % of {source}, most frequent first.",
        )
        shares = np.where(lengths > 0, found[:, -1] / np.maximum(lengths, 1), np.nan)
        scores["vr"] = Score.mean(very_rare, shares)
        return scores
