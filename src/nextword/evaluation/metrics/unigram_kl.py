"""Unigram KL: divergence between the token frequencies of generated and human text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import CountedTokens
from nextword.results.records import Measure

REFERENCES = "references"
"""Value of ``against`` that means all references of the samples."""
TEST = "test"
"""Value of ``against`` that means all test data of a comparison's task, as in F2-Softmax."""
COUNTS = (".npz", ".npy")
"""Endings of count files. Any other file is read as text."""


def unigram_kl(
    p: Sequence[int] | Int[np.ndarray, "K"],
    q: Sequence[int] | Int[np.ndarray, "K"],
    size: int | None = None,
    smoothing: float = 0.5,
) -> float:
    """KL(P || Q) in nats, with P(w) = (p_w + smoothing) / (sum p + smoothing * size), and Q(w) likewise from ``q``.

    Source: the paper of F2-Softmax (Choi et al., 2020, section 4.1.6) has a KLD between "unigram distributions of the
    generated texts and the test data". It states neither direction nor smoothing.

    Args:
        p: Counts of K tokens, (K,).
        q: Counts of the same tokens in the other text, (K,).
        size: Vocabulary size V, which may exceed K. The other V - K tokens have count 0 in ``p`` and ``q``. None: K.
        smoothing: Number that is added to every count. It must be above 0.

    >>> round(unigram_kl([3, 1], [1, 3], smoothing=1.0), 4)
    0.231
    """
    first, second = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    size = len(first) if size is None else size
    if first.shape != second.shape or size < len(first) or smoothing <= 0:
        raise ValueError(
            "unigram KL: must have two lists of counts of the same length, a size of at least that length and a "
            f"smoothing above 0 ({first.shape}, {second.shape}, size {size}, smoothing {smoothing} given)"
        )
    if size == 0:
        raise ValueError("unigram KL: must have at least one token (none given)")
    # all tokens without counts on both sides have the same term, so one term stands for all of them
    many = np.append(np.ones(len(first)), size - len(first))
    p_w = (np.append(first, 0.0) + smoothing) / (first.sum() + smoothing * size)
    q_w = (np.append(second, 0.0) + smoothing) / (second.sum() + smoothing * size)
    # an exact sum does not depend on the order of the tokens
    return math.fsum(many * p_w * np.log(p_w / q_w))


class UnigramKlConfig(MetricConfig):
    """Settings of unigram KL."""

    smoothing: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    """Number added to the count of every token of the vocabulary. With a small number, tokens that occur in only one of
    the two texts dominate the value."""
    against: str = REFERENCES
    """Human text: "references" (all references of the samples), "test" (all test data of a comparison's task, as in
    F2-Softmax), a text file, or a file of counts (.npz from nextword count, or .npy)."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parse the argument of a spec such as ``unigram-kl:test``."""
        if len(arguments) > 1 or not set(arguments) <= {REFERENCES, TEST}:
            raise ValueError(
                f"must be followed by {REFERENCES} or {TEST} ({','.join(arguments)!r} given); name a file as against"
            )
        return {"against": arguments[0]} if arguments else {}

    def arguments(self) -> list[str]:
        """The argument "test" if ``against`` is "test"."""
        return [TEST] if self.against == TEST else []


@registry.register("unigram-kl")
class UnigramKl(Metric):
    """Unigram KL: divergence between token frequencies of generated and human text. Example: ``unigram-kl``."""

    Config = UnigramKlConfig
    needs = ("tokens", "reference_tokens")
    group, goal, decimals = metric.CLOSENESS, "lower", 3

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._generated: Counter[int] = Counter()
        self._human: Counter[int] = Counter()
        self._with_references = self.config.against == REFERENCES
        if not self._with_references:
            counted = _counted(self.config.against, setup)
            self._human.update(dict(zip(counted.ids.tolist(), counted.counts.tolist(), strict=True)))
            self._human += Counter()  # drops tokens with count 0

    def add(self, sample: Sample) -> None:
        """Count the tokens of the text and, if ``against`` is "references", of all its references."""
        self._generated.update(_tokens(sample, sample.tokens))
        if self._with_references:
            for reference in sample.reference_tokens:
                self._human.update(_tokens(sample, reference))

    def result(self) -> dict[str, Score]:
        """``kl-human-generated``, which is KL(human || generated), and ``kl-generated-human``, the other direction."""
        n = self._generated.total()
        if not n or not self._human.total():
            raise UndefinedError(f"unigram KL: no {'token in the references' if n else 'token in the texts'}")
        tokens = self._generated.keys() | self._human.keys()
        human = np.array([self._human[token] for token in tokens])
        generated = np.array([self._generated[token] for token in tokens])
        size = self.setup.unit.size or len(tokens)
        smoothing = self.config.smoothing
        there = unigram_kl(human, generated, size, smoothing)
        back = unigram_kl(generated, human, size, smoothing)
        people = "human" if self._with_references else "test"
        return {
            "kl-human-generated": Score(self._measure(f"{people} || generated", size), there, n),
            "kl-generated-human": Score(self._measure(f"generated || {people}", size), back, n),
        }

    def _measure(self, direction: str, size: int) -> Measure:
        # without a tokenizer, the number of tokens differs between systems, so the unit cannot contain a number
        tokens = f"{size} tokens of the tokenizer" if self.setup.unit.size else "tokens seen on either side"
        people = "all references" if self._with_references else "the test data (all of it, not the references)"
        return self.measure(
            f"KL({direction})",
            f"nats ({self.config.smoothing:g} added to the counts of all {tokens})",
            f"KL({direction}): divergence between the token frequencies of all generated texts and of {people}.",
        )


def _counted(against: str, setup: Setup) -> CountedTokens:
    where = "unigram-kl.against"
    if against == TEST:
        raise ValueError(
            f"{where}: '{TEST}' is possible only in a comparison, where a task has test data; give a text file, a "
            f"file of counts, or '{REFERENCES}'"
        )
    if Path(against).suffix in COUNTS:
        return CountedTokens.load(against, setup.unit, where)
    return CountedTokens.of_corpus(against, setup.unit, where)


def _tokens(sample: Sample, tokens: Int[np.ndarray, "T"]) -> list[int]:
    size = sample.unit.size
    if size is not None and len(tokens) and (tokens.max() >= size or tokens.min() < 0):
        raise ValueError(
            f"{sample.place}: token ids must be from 0 to {size - 1}, as in the tokenizer ({tokens.min()} to "
            f"{tokens.max()} given)"
        )
    found: list[int] = tokens.tolist()
    return found
