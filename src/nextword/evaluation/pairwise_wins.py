"""Pairwise majority: a system beats another that is worse in the majority of the measures (F2-Softmax, table 9)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from nextword.results.records import Duel, Goal, Place, Wins

Values = Mapping[str, float]
"""Value of each measure, by key."""


def wins(
    systems: Mapping[str, Values], goals: Mapping[str, Goal], human: Values, voting: Sequence[str] | None = None
) -> Wins:
    """Every duel and the ranking by duels won.

    A measure votes where both systems have it; one whose goal is the human value votes only where that is known, for
    the system closer to it.

    Args:
        systems: Values of each system.
        goals: Which way is good, by key; a measure without a goal never votes.
        human: Values of the human texts.
        voting: Keys that vote; None: all with a goal.

    Returns:
        The duels of all pairs, in order, and the ranking; equal numbers of wins, then of losses, share a rank.

    >>> table = {"a": {"ppl": 20.0, "rep": 0.1}, "b": {"ppl": 25.0, "rep": 0.5}}
    >>> result = wins(table, {"ppl": "lower", "rep": "human"}, {"rep": 0.2})
    >>> result.duels[0].won, [place.name for place in result.ranking]
    (2, ['a', 'b'])
    """
    keys = [key for key in (goals if voting is None else voting) if key in goals]
    usable = [key for key in keys if goals[key] != "human" or key in human]
    duels = [_duel(a, b, systems, goals, human, usable) for a, b in combinations(systems, 2)]
    voted = [key for key in usable if any(key in values for values in systems.values())]
    return Wins(measures=voted, duels=duels, ranking=ranking(duels, list(systems)))


def ranking(duels: Sequence[Duel], systems: Sequence[str]) -> list[Place]:
    """Systems by the duels that they won against each other; duels with others do not count.

    Equal numbers of wins, then of losses, share a rank.
    """
    won, lost = dict.fromkeys(systems, 0), dict.fromkeys(systems, 0)
    for duel in duels:
        if duel.won != duel.lost and duel.first in won and duel.second in won:
            better, worse = (duel.first, duel.second) if duel.won > duel.lost else (duel.second, duel.first)
            won[better] += 1
            lost[worse] += 1
    standing = {name: (-won[name], lost[name]) for name in systems}
    ranks = {name: 1 + sum(other < standing[name] for other in standing.values()) for name in systems}
    order = sorted(systems, key=standing.__getitem__)
    return [Place(rank=ranks[name], name=name, wins=won[name], losses=lost[name]) for name in order]


def _duel(
    first: str,
    second: str,
    systems: Mapping[str, Values],
    goals: Mapping[str, Goal],
    human: Values,
    keys: Sequence[str],
) -> Duel:
    count = {-1: 0, 0: 0, 1: 0}
    for key in keys:
        if key in systems[first] and key in systems[second]:
            a, b = (_cost(systems[name][key], goals[key], human.get(key)) for name in (first, second))
            # Rounding decides nothing: 0.3 and 0.1 are as far from 0.2.
            count[0 if math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) else (a < b) - (a > b)] += 1
    return Duel(first=first, second=second, won=count[1], lost=count[-1], tied=count[0])


def _cost(value: float, goal: Goal, human: float | None) -> float:
    """The lower the better."""
    if goal == "human":
        assert human is not None, "a measure without a human value does not vote"
        return abs(value - human)
    return value if goal == "lower" else -value
