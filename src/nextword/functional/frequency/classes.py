"""Frequency classes: the vocabulary sorted by frequency and cut into consecutive segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from nextword.functional.frequency.counts import checked


@dataclass(frozen=True, eq=False)
class FrequencyClasses:
    """A division of the vocabulary into classes.

    Attributes:
        order: Token ids by decreasing count; for equal counts the lower id is first.
        boundaries: Exclusive end of each class in ``order``; the last end is V.

    >>> classes = FrequencyClasses.of([1, 5, 3, 0], [1, 4])
    >>> classes.order.tolist(), classes.count, classes.sizes, classes.token_class.tolist()
    ([1, 2, 0, 3], 2, (1, 3), [1, 0, 1, 1])
    """

    order: Int[np.ndarray, "V"]
    boundaries: tuple[int, ...]

    def __post_init__(self) -> None:
        ends = (0, *self.boundaries)
        if ends[-1] != len(self.order) or any(one >= next_one for one, next_one in pairwise(ends)):
            raise ValueError(
                f"classes of tokens: boundaries must ascend from above 0 to the {len(self.order)} tokens "
                f"({list(self.boundaries)} given)"
            )

    @classmethod
    def of(cls, counts: Sequence[int] | Int[np.ndarray, "V"], boundaries: Sequence[int]) -> FrequencyClasses:
        """Classes with the exclusive ends ``boundaries`` in the order of decreasing count."""
        return cls(by_frequency(counts), tuple(int(end) for end in boundaries))

    @property
    def count(self) -> int:
        """K, the number of classes."""
        return len(self.boundaries)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of tokens of each class."""
        return tuple(np.diff(self.boundaries, prepend=0).tolist())

    @cached_property
    def token_class(self) -> Int[np.ndarray, "V"]:
        """Class of every token id. Class 0 has the most frequent tokens."""
        found = np.empty_like(self.order)
        found[self.order] = np.repeat(np.arange(self.count), self.sizes)
        return found

    def tokens(self, number: int) -> Int[np.ndarray, "K"]:
        """The token ids of class ``number``, the most frequent first."""
        return self.order[(0, *self.boundaries)[number] : self.boundaries[number]]

    def masses(self, counts: Sequence[int] | Int[np.ndarray, "V"]) -> Int[np.ndarray, "K"]:
        """For each class, the sum of its tokens' ``counts``."""
        cumulative = np.cumsum(checked(np.asarray(counts), "counts")[self.order])
        return np.diff(cumulative[np.array(self.boundaries) - 1], prepend=0)


def by_frequency(counts: Sequence[int] | Int[np.ndarray, "V"]) -> Int[np.ndarray, "V"]:
    """Token ids by decreasing count; for equal counts the lower id is first."""
    return np.argsort(-checked(np.asarray(counts), "counts"), kind="stable")


# -- Ways to divide a vocabulary into classes by frequency, by name.
#
# The two with a given number of classes are the ablations of F2-Softmax (Choi et al., 2020), figure 3.


def equal_frequency(counts: Counts, k: int) -> FrequencyClasses:
    """``k`` classes with about equal sums of counts, divided as by ``mass_boundaries``; no class is empty.

    >>> equal_frequency([6, 6, 6, 5, 5, 5, 5, 2, 2, 2, 1, 1], 3).boundaries, equal_frequency([9, 1, 0], 3).boundaries
    ((3, 6, 12), (1, 2, 3))
    """
    order = by_frequency(counts)
    _possible(k, len(order))
    ends = mass_boundaries(np.asarray(counts, dtype=np.int64)[order], np.array([k]))
    # Each end is at least one after the end before it. That always leaves room for the classes after it: counts fall,
    # so the first k tokens of n have at least k/n of the total, and no end is beyond the k/K-th part of the list.
    number = np.arange(k)
    return FrequencyClasses(order, tuple((np.maximum.accumulate(ends - number) + number).tolist()))


def equal_tokens(counts: Counts, k: int) -> FrequencyClasses:
    """``k`` classes with equally many tokens, by decreasing count; the first classes have one token more if needed.

    >>> equal_tokens([6, 6, 6, 5, 5, 5, 5, 2], 3).boundaries
    (3, 6, 8)
    """
    order = by_frequency(counts)
    _possible(k, len(order))
    size, larger = divmod(len(order), k)
    return FrequencyClasses(order, tuple(size * number + min(number, larger) for number in range(1, k + 1)))


def _possible(k: int, tokens: int) -> None:
    if not 1 <= k <= tokens:
        raise ValueError(f"classes: must be from 1 to {tokens}, the number of tokens ({k} given)")


def _chosen(counts: Counts, classes: int | None) -> FrequencyClasses:
    if classes is not None:
        raise ValueError(
            f"division 'mefmax': chooses the number of classes itself ({classes} given); leave classes out, or take "
            f"the division 'eq-freq' (the same rule with a given number)."
        )
    return mefmax(counts)


DIVISIONS: dict[str, Callable[[Counts, Any], FrequencyClasses]] = {
    "mefmax": _chosen,
    "eq-freq": equal_frequency,
    "eq-token": equal_tokens,
}
"""Divisions by name: functions of the counts and the number of classes (None for ``mefmax``)."""


def divide(counts: Counts, division: str, classes: int | None = None) -> FrequencyClasses:
    """Divides tokens into ``classes`` classes by ``division``, a key of ``DIVISIONS``; ``classes=None`` for ``mefmax``.

    Raises:
        ValueError: If the division is unknown, or the number of classes is missing, invalid, or given for ``mefmax``.

    >>> divide([6, 5, 3, 2], "eq-token", 2).boundaries
    (2, 4)
    """
    if division not in DIVISIONS:
        raise ValueError(f"division: must be one of {', '.join(DIVISIONS)} ('{division}' given)")
    if classes is None and division != "mefmax":
        raise ValueError(f"division '{division}' needs the number of classes, for instance classes=8")
    return DIVISIONS[division](counts, classes)


# -- MefMax: how many classes make both the classes and the tokens within them as even as possible.
#
# Source: F2-Softmax (Choi et al., 2020), section 3.2, algorithm 1 and equation 5. In whole numbers throughout: a
# class ends at the first token with K * cumulative count >= k * total, which floating-point sums miss for many K.

MOST_CLASSES = 512
"""Largest K that is tried. For text the limit has no effect: K is at most the total count divided by the largest count,
which is below 40 for usual vocabularies. For nearly even counts the limit avoids quadratic cost."""

TIE = 1e-12
"""Values of the objective that differ by less count as equal; then the smaller K is chosen."""

AT_ONCE = 1 << 18
"""Number of class boundaries that are processed together, which limits memory."""

Counts = Sequence[int] | Int[np.ndarray, "V"]


@dataclass(frozen=True, eq=False)
class MefMaxCurve:
    """The objective of MefMax (Choi et al. 2020, equation 5) for each number of classes.

    Attributes:
        ks: Numbers of classes, from 1.
        between: Evenness of the classes: entropy of their frequencies divided by its maximum.
        within: Evenness of the tokens in a class, averaged over classes; 0 for a class of one token or without counts.
    """

    ks: Int[np.ndarray, "N"]
    between: Float[np.ndarray, "N"]
    within: Float[np.ndarray, "N"]

    @property
    def values(self) -> Float[np.ndarray, "N"]:
        """Value of the objective for each K: ``between + within``."""
        summed: Float[np.ndarray, "N"] = self.between + self.within
        return summed

    @property
    def best(self) -> int:
        """The smallest K with the largest objective."""
        return int(self.ks[np.flatnonzero(self.values >= self.values.max() - TIE)[0]])


def mefmax(counts: Counts, most: int | None = MOST_CLASSES) -> FrequencyClasses:
    """The classes for the best number of classes K (see ``MefMaxCurve``).

    K is at most ``most``, and no token may have more than 1/K of all counts. Tokens with count 0 are in the last class.

    >>> mefmax([6, 6, 6, 5, 5, 5, 5, 2, 2, 2, 1, 1]).boundaries
    (2, 4, 7, 12)
    """
    order = by_frequency(counts)
    ranked = np.asarray(counts, dtype=np.int64)[order]
    best = _curve(ranked, most).best
    return FrequencyClasses(order, tuple(mass_boundaries(ranked, np.array([best])).tolist()))


def mefmax_curve(counts: Counts, most: int | None = MOST_CLASSES) -> MefMaxCurve:
    """The objective for every K that ``mefmax`` tries with the same arguments.

    >>> mefmax_curve([3] * 10).values[:5].round(3).tolist()
    [1.0, 2.0, 1.991, 1.985, 2.0]
    """
    return _curve(np.asarray(counts, dtype=np.int64)[by_frequency(counts)], most)


def evenness(counts: Counts, classes: FrequencyClasses) -> tuple[float, float]:
    """Both terms of MefMax's objective for ``classes``: evenness between classes, and evenness within classes."""
    ranked = np.asarray(counts, dtype=np.int64)[classes.order]
    between, within = _terms(_Sums.of(ranked), np.array([classes.count]), np.array(classes.boundaries))
    return float(between[0]), float(within[0])


def mass_boundaries(ranked: Int[np.ndarray, "V"], ks: Int[np.ndarray, "N"]) -> Int[np.ndarray, "M"]:
    """Exclusive ends of K classes with about equal sums of counts, concatenated over all K in ``ks``.

    Args:
        ranked: Counts in decreasing order.
        ks: Numbers of classes, each at most the total count divided by the largest count; otherwise ends may not
            ascend.
    """
    cumulative = np.cumsum(ranked)
    total = int(cumulative[-1])
    k_of, number = _numbered(ks)
    # The smallest whole number not below number * total / K. The product would leave 64 bits: total = share * K + rest.
    share, rest = np.divmod(total, k_of)
    thresholds = number * share + -(-number * rest // k_of)
    ends = np.searchsorted(cumulative, thresholds, side="left") + 1
    return np.where(number == k_of, len(ranked), ends)


def _curve(ranked: Int[np.ndarray, "V"], most: int | None) -> MefMaxCurve:
    if most is not None and most < 1:
        raise ValueError(f"mefmax: most must be at least 1 ({most} given)")
    highest = int(ranked.sum()) // int(ranked[0])
    ks = np.arange(1, (highest if most is None else min(highest, most)) + 1)
    sums = _Sums.of(ranked)
    parts = np.split(ks, np.flatnonzero(np.diff((np.cumsum(ks) - ks) // AT_ONCE)) + 1)
    terms = [_terms(sums, part, mass_boundaries(ranked, part)) for part in parts]
    between, within = (np.concatenate(term) for term in zip(*terms, strict=True))
    return MefMaxCurve(ks, between, within)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Cumulative sums from which the entropy of any class is computed: of counts, and of count times log count."""

    counts: Int[np.ndarray, "S"]  # of the first tokens, from none to all
    # of the last tokens, from all to none, so that a rare class is not a small difference of large sums
    logs: Shaped[np.ndarray, "S"]  # long doubles are not a Float of jaxtyping

    @classmethod
    def of(cls, ranked: Int[np.ndarray, "V"]) -> _Sums:
        logs = ranked * np.log(np.maximum(ranked, 1))
        # In extended precision where the machine has it.
        of_last = np.cumsum(logs[::-1], dtype=np.longdouble)[::-1]
        return cls(np.concatenate([[0], np.cumsum(ranked)]), np.concatenate([of_last, [0]]))


def _terms(
    sums: _Sums, ks: Int[np.ndarray, "N"], boundaries: Int[np.ndarray, "M"]
) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Both terms for each K, from the concatenated boundaries."""
    number = _numbered(ks)[1]
    begins = np.where(number == 1, 0, np.roll(boundaries, 1))
    sizes, masses = boundaries - begins, sums.counts[boundaries] - sums.counts[begins]
    # A class whose tokens never occur has no frequencies. It counts 0, like a class of a single token.
    mass, log_mass = np.maximum(masses, 1), np.log(np.maximum(masses, 1))
    entropies = log_mass - (sums.logs[begins] - sums.logs[boundaries]).astype(np.float64) / mass
    uniform = np.where((sizes > 1) & (masses > 0), entropies / np.log(np.maximum(sizes, 2)), 0)
    starts = np.cumsum(ks) - ks
    total = sums.counts[-1]
    entropy = np.log(total) - np.add.reduceat(masses / total * log_mass, starts)
    between = np.where(ks > 1, entropy / np.log(np.maximum(ks, 2)), 0)
    return between, np.add.reduceat(uniform, starts) / ks


def _numbered(ks: Int[np.ndarray, "N"]) -> tuple[Int[np.ndarray, "M"], Int[np.ndarray, "M"]]:
    """For all classes of all K in ``ks``, their K and numbers: for ks 2, 3 these are 2 2 3 3 3 and 1 2 1 2 3."""
    k_of = np.repeat(ks, ks)
    return k_of, np.arange(1, len(k_of) + 1) - np.repeat(np.cumsum(ks) - ks, ks)
