"""How much of what should be copied from a source is copied, and how much of what is copied should be.

With S, R and O the sets of words of a source, its reference and a model's output, over all examples i:

    copy recall    = sum_i |S_i & R_i & O_i| / sum_i |S_i & R_i|
    copy precision = sum_i |S_i & R_i & O_i| / sum_i |S_i & O_i|

Both count distinct words, so that saying a word twice earns nothing, and divide sums, so that no mean of means arises.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from nextword.metrics.intervals import bootstrap_ratio

Interval = tuple[float, float] | None

_MARKUP = re.compile(r"<[^<>\s]*>")
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The words of a text: runs of letters and digits in lower case. Marks such as ``<unk>`` are no words.

    >>> words("The <unk> of Mary's 2-year-old dog , Rex")
    ['the', 'of', 'mary', 's', '2', 'year', 'old', 'dog', 'rex']
    """
    return _WORD.findall(_MARKUP.sub(" ", text).lower())


def frequent_words(texts: Iterable[str], count: int) -> frozenset[str]:
    """The ``count`` most frequent words of the texts; of equally frequent ones the first of the alphabet.

    >>> sorted(frequent_words(["b a b", "c a b"], 2))
    ['a', 'b']
    """
    counted = Counter(word for text in texts for word in words(text))
    return frozenset(sorted(counted, key=lambda word: (-counted[word], word))[:count])


@dataclass
class CopyingSum:
    """Counts over examples; words in ``leave_out`` do not count anywhere.

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
        """Adds one example."""
        given = set(words(source)) - self.leave_out
        wanted, copied = given & set(words(reference)), given & set(words(output))
        self._right.append(len(wanted & copied))
        self._wanted.append(len(wanted))
        self._copied.append(len(copied))

    @property
    def wanted(self) -> int:
        """Words of the sources that the references contain too."""
        return sum(self._wanted)

    @property
    def copied(self) -> int:
        """Words of the sources that the outputs contain too."""
        return sum(self._copied)

    def recall(self) -> float | None:
        """Share of the wanted words that are copied; None where none is wanted."""
        return sum(self._right) / self.wanted if self.wanted else None

    def precision(self) -> float | None:
        """Share of the copied words that are wanted; None where none is copied."""
        return sum(self._right) / self.copied if self.copied else None

    def recall_interval(self) -> Interval:
        """95 % bootstrap interval over examples."""
        return _interval(self._right, self._wanted)

    def precision_interval(self) -> Interval:
        """95 % bootstrap interval over examples."""
        return _interval(self._right, self._copied)


def _interval(right: list[int], total: list[int]) -> Interval:
    # An example without such words adds nothing to either sum, but takes part in the draws like any other.
    with np.errstate(invalid="ignore"):
        found = bootstrap_ratio(np.array(right, dtype=np.float64), np.array(total, dtype=np.float64))
    # A draw in which nothing is counted has no share, and then the interval is not known.
    return found if found is not None and np.isfinite(found).all() else None
