"""How often an audit is wrong, and what it would have found."""

from __future__ import annotations

import math

FALSE_ALARM_EXACT = 1e-6
"""Chance that rounding alone makes any of an audit's exact checks fail."""

FALSE_ALARM_SAMPLED = 1e-3
"""Chance that luck alone makes any of an audit's checks of drawn tokens fail."""

MISSED = 1e-3
"""Chance with which a fault of the stated size and share is missed."""


def share_found(asked: int) -> float:
    """The share of places that a fault must show at, for none of so many asked places to show it with chance 0.001.

    >>> round(share_found(1000), 4)
    0.0069
    """
    return -math.expm1(math.log(MISSED) / max(1, asked))


def largest_gap(draws: int, tests: int) -> float:
    """How far the distribution function of uniform draws can be from that of a uniform number, but for false alarms.

    The inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant (1990), which holds for any number of
    draws; the allowed false alarms are split between the tests.

    >>> round(largest_gap(10_000, 1), 4)
    0.0195
    """
    return math.sqrt(math.log(2 * tests / FALSE_ALARM_SAMPLED) / (2 * draws))
