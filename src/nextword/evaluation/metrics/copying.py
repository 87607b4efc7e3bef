"""Copy recall and copy precision: the source words that a model copies, compared with the reference.

Let S, R and O be the sets of words of a source, its reference and a model's output. Over all examples i:

    copy recall    = sum_i |S_i & R_i & O_i| / sum_i |S_i & R_i|
    copy precision = sum_i |S_i & R_i & O_i| / sum_i |S_i & O_i|

Copy recall and copy precision count distinct words, so repeating a word has no effect. The sums over examples are
divided only at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import field_validator

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.statistics import Interval, Statistic, bootstrap_intervals
from nextword.runtime.corpora.words import words


def frequent_words(texts: Iterable[str], count: int) -> frozenset[str]:
    """The ``count`` most frequent words of ``texts``. Of equally frequent words, the alphabetically first are taken.

    >>> sorted(frequent_words(["b a b", "c a b"], 2))
    ['a', 'b']
    """
    counted = Counter(word for text in texts for word in words(text))
    return frozenset(sorted(counted, key=lambda word: (-counted[word], word))[:count])


@dataclass
class CopyingSum:
    """Numbers of copied source words, summed over examples. Words in ``leave_out`` are ignored.

    >>> total = CopyingSum()
    >>> total.add(source="Ann met Bob in Rome", reference="Bob met Ann", output="Bob went to Rome")
    >>> round(total.recall(), 3), total.precision()
    (0.333, 0.5)
    """

    leave_out: frozenset[str] = frozenset()
    _right: list[int] = field(default_factory=list)
    _wanted: list[int] = field(default_factory=list)
    _copied: list[int] = field(default_factory=list)

    def add(self, source: str, reference: str, output: str) -> None:
        """Add one example."""
        given = set(words(source)) - self.leave_out
        wanted, copied = given & set(words(reference)), given & set(words(output))
        self._right.append(len(wanted & copied))
        self._wanted.append(len(wanted))
        self._copied.append(len(copied))

    @property
    def wanted(self) -> int:
        """Number of source words that the reference contains, summed over examples."""
        return sum(self._wanted)

    @property
    def copied(self) -> int:
        """Number of source words that the output contains, summed over examples."""
        return sum(self._copied)

    def recall(self) -> float | None:
        """Share of the source words in the references that are also in the outputs. None if there are no such words."""
        return sum(self._right) / self.wanted if self.wanted else None

    def precision(self) -> float | None:
        """Share of the source words in the outputs that are also in the references. None if there are no such words."""
        return sum(self._right) / self.copied if self.copied else None

    def recall_statistic(self) -> Statistic:
        """The recall with each example's contribution, for resampling. Examples that contribute 0 are resampled too."""
        return Statistic.ratio(self._right, self._wanted)

    def precision_statistic(self) -> Statistic:
        """The precision with each example's contribution, for resampling."""
        return Statistic.ratio(self._right, self._copied)

    def recall_interval(self) -> Interval:
        """95 % bootstrap interval of the recall, over examples."""
        return bootstrap_intervals([self.recall_statistic()])[0]

    def precision_interval(self) -> Interval:
        """95 % bootstrap interval of the precision, over examples."""
        return bootstrap_intervals([self.precision_statistic()])[0]


class CopyingConfig(MetricConfig):
    """Settings of copy recall and precision."""

    leave_out: tuple[str, ...] = ()
    """Words to ignore, in lower case, for example the most frequent words."""

    @field_validator("leave_out")
    @classmethod
    def _are_words(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [word for word in given if words(word) != [word]]
        if wrong:
            raise ValueError(
                f"must contain words, which are runs of lower-case letters and digits ('{wrong[0]}' given)"
            )
        return given


@registry.register("copying")
class Copying(Metric):
    """Copy recall and precision: overlap of the source words in text and reference. Example: ``copying``."""

    Config = CopyingConfig
    needs = ("source", "references", "text")
    group, goal, decimals = metric.SUMMARY, "higher", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._total = CopyingSum(frozenset(self.config.leave_out))

    def add(self, sample: Sample) -> None:
        """Read the source, the first reference and the text."""
        source, references, text = (sample.need(field, "copying") for field in self.needs)
        self._total.add(source, references[0], text)

    def result(self) -> dict[str, Score]:
        """``copy_recall`` and ``copy_precision``, each only if its denominator is above 0."""
        total, found = self._total, {}
        left_out = f" ({len(set(self.config.leave_out))} words left out)" if self.config.leave_out else ""
        meaning = "Copy {}: of the source words that the {} contains, the share that the {} contains too."
        if total.wanted:
            unit = f"fraction of distinct source words in the reference{left_out}"
            recall = self.measure("copy recall", unit, meaning.format("recall", "reference", "output"))
            found["copy_recall"] = Score.of(recall, total.recall_statistic(), total.wanted)
        if total.copied:
            unit = f"fraction of distinct source words in the output{left_out}"
            precision = self.measure("copy precision", unit, meaning.format("precision", "output", "reference"))
            found["copy_precision"] = Score.of(precision, total.precision_statistic(), total.copied)
        if not found:
            raise UndefinedError("copying: no source word occurs in its reference or text")
        return found
