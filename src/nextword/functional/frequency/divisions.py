"""Ways to divide a vocabulary into classes by frequency, by name.

The two with a given number of classes are the ablations of F2-Softmax (Choi et al., 2020), figure 3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nextword.functional.frequency.frequency_classes import FrequencyClasses, by_frequency
from nextword.functional.frequency.mefmax import Counts, mass_boundaries, mefmax


def equal_frequency(counts: Counts, k: int) -> FrequencyClasses:
    """K classes of about equal frequency, MefMax's rule for a K from outside: never an empty class.

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
    """K classes of equal size in order of frequency; where it does not divide, the first are one larger.

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
            f"division 'mefmax': finds the number of classes itself ({classes} given); leave classes out, or take "
            f"the division 'eq-freq' (the same rule with a given number)."
        )
    return mefmax(counts)


def _given(name: str, rule: Callable[[Counts, int], FrequencyClasses]) -> Callable[..., FrequencyClasses]:
    def divided(counts: Counts, classes: int | None) -> FrequencyClasses:
        if classes is None:
            raise ValueError(f"division '{name}' needs the number of classes, for instance classes=8")
        return rule(counts, classes)

    return divided


DIVISIONS: dict[str, Callable[[Counts, int | None], FrequencyClasses]] = {
    "mefmax": _chosen,
    "eq-freq": _given("eq-freq", equal_frequency),
    "eq-token": _given("eq-token", equal_tokens),
}
"""By name: a function of the counts and the number of classes, None where it is not given."""


def divide(counts: Counts, division: str, classes: int | None = None) -> FrequencyClasses:
    """The classes of a named division.

    Args:
        counts: How often each token id occurs.
        division: A name of ``DIVISIONS``.
        classes: Their number, for all divisions but ``mefmax``.

    Raises:
        ValueError: No such division, a number that is not possible, given where it must not be or missing.

    >>> divide([6, 5, 3, 2], "eq-token", 2).boundaries
    (2, 4)
    """
    if division not in DIVISIONS:
        raise ValueError(f"division: must be one of {', '.join(DIVISIONS)} ('{division}' given)")
    return DIVISIONS[division](counts, classes)
