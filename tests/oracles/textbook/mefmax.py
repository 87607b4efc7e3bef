"""MefMax and its ablations as the paper prints them, in fractions: no rounding before the final logarithms.

Source: F2-Softmax (Choi et al., 2020), algorithm 1 and equation 5. Where the paper is silent: tokens that never
occur are in the last class, a class of one token counts 0, equal objectives go to the smaller K; K = 1 is possible.
"""

from __future__ import annotations

import math
from fractions import Fraction


def ranked(counts: list[int]) -> list[int]:
    """Token ids, the most frequent first; of equal counts the lower id."""
    return sorted(range(len(counts)), key=lambda token: (-counts[token], token))


def boundaries(counts: list[int], k: int) -> list[int]:
    """Exclusive ends: walk down the list and close class i once the frequencies so far reach i/k."""
    total = sum(counts)
    ends, so_far = [], Fraction(0)
    for place, token in enumerate(ranked(counts), 1):
        so_far += Fraction(counts[token], total)
        if len(ends) < k - 1 and so_far >= Fraction(len(ends) + 1, k):
            ends.append(place)
    return [*ends, len(counts)]


def most_classes(counts: list[int]) -> int:
    """No token may have more than 1/K of all."""
    return math.floor(1 / Fraction(max(counts), sum(counts)))


def evenness(frequencies: list[int]) -> float:
    """Entropy of the frequencies, made to add up to one, over the entropy if they were equal."""
    total = sum(frequencies)
    if len(frequencies) == 1 or total == 0:
        return 0.0
    shares = [Fraction(one, total) for one in frequencies if one]
    return -math.fsum(float(share) * math.log(share) for share in shares) / math.log(len(frequencies))


def terms(counts: list[int], ends: list[int]) -> tuple[float, float]:
    """Both terms of equation 5."""
    order = ranked(counts)
    classes = [[counts[token] for token in order[begin:end]] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    within = math.fsum(evenness(one) for one in classes) / len(classes)
    return evenness([sum(one) for one in classes]), within


def chosen(counts: list[int]) -> int:
    """The best number of classes."""
    values = [sum(terms(counts, boundaries(counts, k))) for k in range(1, most_classes(counts) + 1)]
    return next(k for k, value in enumerate(values, 1) if value >= max(values) - 1e-12)


def equal_tokens(tokens: int, k: int) -> list[int]:
    """Exclusive ends where tokens are dealt out to classes in turn, and each class is then laid in a row."""
    sizes = [0] * k
    for number in range(tokens):
        sizes[number % k] += 1
    return [sum(sizes[: number + 1]) for number in range(k)]
