"""uniq-seq and uniq: how many different tokens a system uses at all, in what it writes and in what it predicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry
from nextword.evaluation.metrics.sample import Sample
from nextword.results.records import Measure


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
        """Those of several texts together."""
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
