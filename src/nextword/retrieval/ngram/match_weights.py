"""How much each level of a match counts, by the length of the longest match; fitted to held-out text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field, model_validator

from nextword.retrieval.ngram.levels import EVIDENCE, LIMIT, Found
from nextword.runtime.files import Record

LENGTHS = (1, 2, 3, 4, 5, 7, 9, 13, 17, 33, 65)
"""Shortest match of each group that has weights of its own; without a match the head speaks alone."""

PRIOR = 4.0
"""So many positions are taken to agree with the weights of all lengths together, so that a rare length has some."""

_STEPS, _PRECISION = 10_000, 1e-10
_TOLERANCE = 1e-9


class MatchWeights(Record):
    """Shares of a head and of the levels of a match, for each group of lengths.

    The share of a level that a position lacks is the head's there, so that every row adds up to one.
    """

    kind: Literal["match weights"] = "match weights"
    """What the file is."""
    tokenizer: str | None = None
    """Fingerprint of the tokenizer whose tokens they were fitted to; None where nobody knows."""
    model: str = ""
    """The model that they were fitted with, for a report."""
    data: list[str] = Field(default_factory=list)
    """The text that they were fitted to, for a report."""
    tokens: int = Field(default=0, ge=0)
    """Tokens of that text."""
    gain: float | None = None
    """Nats per token that the corpus takes from that text with the best shares; None where nobody knows."""
    low: float | None = None
    """Lower end of its 95 % interval."""
    high: float | None = None
    """Upper end. Where the interval does not exclude 0, the head has the whole share."""
    evidence: tuple[int, ...] = EVIDENCE
    """How often the match of each level occurs at least."""
    limit: int = Field(default=LIMIT, ge=1)
    """How often the match of a level occurs at most."""
    lengths: tuple[int, ...] = LENGTHS
    """Shortest match of each group."""
    shares: list[list[float]]
    """For each group of lengths the share of the head, and that of each level."""

    @model_validator(mode="after")
    def _are_shares(self) -> MatchWeights:
        for name, numbers in (("evidence", self.evidence), ("lengths", self.lengths)):
            if not numbers or numbers[0] != 1 or list(numbers) != sorted(set(numbers)):
                raise ValueError(f"{name}: must rise from 1 ({list(numbers)} given); fit the weights again")
        if self.limit < self.evidence[-1]:
            raise ValueError(
                f"limit: must be at least {self.evidence[-1]}, what the last level asks ({self.limit} given); raise it"
            )
        shape = (len(self.lengths), len(self.evidence) + 1)
        if len(self.shares) != shape[0] or any(len(row) != shape[1] for row in self.shares):
            raise ValueError(f"shares: must be {shape[0]} rows of {shape[1]} numbers; fit the weights again")
        shares = np.array(self.shares)
        if (shares < 0).any() or (abs(shares.sum(1) - 1) > _TOLERANCE).any():
            raise ValueError("shares: must be at least 0 and add up to 1 in each row; fit the weights again")
        if (shares[:, 0] <= 0).any():
            raise ValueError("shares: must leave the head more than 0 in each row; fit the weights again")
        return self

    def at(self, found: Found) -> Float[np.ndarray, "N C"]:
        """Shares of the head (first) and of each level at every position; each row adds up to one."""
        chosen = np.array(self.shares)[np.maximum(group_of(found.length, self.lengths), 0)]
        chosen = chosen / chosen.sum(1, keepdims=True)
        levels = np.where(found.counts > 0, chosen[:, 1:], 0.0)
        lacking = np.where(found.counts > 0, 0.0, chosen[:, 1:]).sum(1)
        return np.concatenate([(chosen[:, 0] + lacking)[:, None], levels], 1)


def head_alone(evidence: Sequence[int] = EVIDENCE, lengths: Sequence[int] = LENGTHS) -> list[list[float]]:
    """Shares under which a corpus says nothing."""
    return [[1.0, *[0.0] * len(evidence)] for _ in lengths]


def group_of(length: Int[np.ndarray, "N"], lengths: Sequence[int]) -> Int[np.ndarray, "N"]:
    """Which group of lengths each match belongs to; -1 where there is none.

    >>> group_of(np.array([0, 1, 4, 5, 6, 1000]), (1, 2, 5)).tolist()
    [-1, 0, 1, 2, 2, 2]
    """
    return np.searchsorted(np.array(lengths), length, side="right") - 1


def fit_match_weights(
    log_head: Float[np.ndarray, "N"],
    levels: Float[np.ndarray, "N J"],
    found: Found,
    *,
    evidence: tuple[int, ...] = EVIDENCE,
    limit: int = LIMIT,
    lengths: tuple[int, ...] = LENGTHS,
) -> MatchWeights:
    """The weights with the highest likelihood of a text that is not in the corpus.

    The likelihood of a mixture is concave in its weights, so there is one best value, and expectation maximisation from
    even weights goes to it: the same numbers every time.

    Args:
        log_head: Log-probability of each token by the head alone.
        levels: Its probability by each level, from ``Found.probabilities``.
        found: The levels.
        evidence: Those that ``found`` was looked up with.
        limit: Likewise.
        lengths: Shortest match of each group.

    Raises:
        ValueError: There is no token, or the head says that one is impossible.
    """
    if not len(log_head):
        raise ValueError("data: must have tokens to fit weights to (none given); give some text")
    if not np.isfinite(log_head).all():
        raise ValueError(
            f"data: must be possible to the head alone (token {int(np.argmin(np.isfinite(log_head)))} is not); give "
            "another text or head"
        )
    # relative to the larger one, so that neither underflows
    head = np.exp(log_head)[:, None]
    parts = np.concatenate([head, np.where(found.counts > 0, levels, head)], 1)
    parts = parts / np.maximum(parts.max(1, keepdims=True), np.finfo(float).tiny)
    group = group_of(found.length, lengths)
    even = np.full(parts.shape[1], 1 / parts.shape[1])
    pooled = best_mixture(parts[group >= 0], even)
    shares = [best_mixture(parts[group == number], pooled).tolist() for number in range(len(lengths))]
    return MatchWeights(tokens=len(log_head), evidence=evidence, limit=limit, lengths=lengths, shares=shares)


def best_mixture(parts: Float[np.ndarray, "N C"], prior: Float[np.ndarray, "C"]) -> Float[np.ndarray, "C"]:
    """The weights of a mixture that maximise ``sum_n log sum_c w_c parts_nc + PRIOR sum_c prior_c log w_c``.

    Args:
        parts: Probability of each observation by each component, up to a factor of its own.
        prior: Weights to which so many observations as ``PRIOR`` agree beforehand, all above 0.

    >>> best_mixture(np.zeros((0, 2)), np.array([0.25, 0.75])).tolist()
    [0.25, 0.75]
    """
    weights = prior
    for _ in range(_STEPS):
        owned = parts * weights
        owned /= np.maximum(owned.sum(1, keepdims=True), np.finfo(float).tiny)
        better = owned.sum(0) + PRIOR * prior
        better /= better.sum()
        if abs(better - weights).max() < _PRECISION:
            break
        weights = better
    return weights
