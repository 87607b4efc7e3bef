"""uniq-seq and uniq: how many different tokens a system uses at all, in what it writes and in what it predicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


@registry.register("uniq-seq")
class UniqSeq(Metric):
    """uniq-seq: different tokens of all written texts together (Uniq of F2-Softmax). Example: ``uniq-seq``."""

    Config = MetricConfig
    needs = ("tokens",)

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._seen = DistinctTokens()

    def add(self, sample: Sample) -> None:
        """Reads the written text."""
        self._seen.add(sample.tokens.tolist())

    def result(self) -> dict[str, Score]:
        """``uniq-seq``."""
        meaning = "uniq-seq: different tokens of all texts together; more text has more, so compare equal numbers."
        return {"uniq-seq": self._seen.score(_measure("uniq-seq", "tokens (different, of all texts)", meaning))}


@registry.register("uniq")
class Uniq(Metric):
    """uniq: different tokens among the most probable ones at held-out places; of texts: uniq-seq. Example: ``uniq``."""

    Config = MetricConfig
    needs = ("predicted_token_ids",)

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._seen = DistinctTokens()

    def add(self, sample: Sample) -> None:
        """Reads the predictions of one block."""
        self._seen.add(sample.need("predicted_token_ids", "uniq (uniq-seq counts the tokens of texts)"))

    def result(self) -> dict[str, Score]:
        """``uniq``."""
        meaning = "uniq: different tokens among the most probable ones at each held-out token; grows with their number."
        return {"uniq": self._seen.score(_measure("uniq", "tokens (different, of all predictions)", meaning))}


def _measure(title: str, unit: str, meaning: str) -> Measure:
    return Measure(title=title, group=metric.DIVERSITY, unit=unit, goal="human", decimals=0, meaning=meaning)
