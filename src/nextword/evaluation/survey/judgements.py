"""Answers that count, and the numbers that they give each system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nextword.results.records import Measure


@dataclass(frozen=True)
class Judgements:
    """Answers to one question that count, one row each."""

    values: list[str]
    writers: list[dict[str, str]]
    """By side, the system."""
    items: Int[np.ndarray, "N"]
    judges: Int[np.ndarray, "N"]


@dataclass(frozen=True)
class Scores:
    """What the answers say of one system: a number for each row that is about it."""

    values: Float[np.ndarray, "N"]
    items: Int[np.ndarray, "N"]
    judges: Int[np.ndarray, "N"]


@dataclass(frozen=True)
class Scored:
    """One measure that the answers to a question give."""

    key: str
    measure: Measure
    systems: dict[str, Scores]
    tested: bool = True
    """Whether systems are compared in it."""


def numbers(answers: Judgements, side: str, number: Callable[[str], float]) -> dict[str, Scores]:
    """For each system that is on a side: the numbers of its answers."""
    systems = sorted({writers[side] for writers in answers.writers})
    found = {}
    for system in systems:
        rows = np.array([writers[side] == system for writers in answers.writers])
        values = np.array([number(value) for value in answers.values])[rows]
        found[system] = Scores(values, answers.items[rows], answers.judges[rows])
    return found
