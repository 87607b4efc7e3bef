"""Levels of a match: the longest match of a context in a corpus, and shorter matches that occur more often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from nextword.retrieval.ngram.ngram_index import ABOVE, BELOW, LastTokens, NgramIndex
from nextword.runtime.files import Record

EVIDENCE = (1, 4, 16, 64)
"""Minimum number of occurrences per level: a level is the longest match that occurs at least this often. The first
level is the longest match of all."""

LIMIT = 1024
"""Maximum number of occurrences of a level's match. Levels with more frequent matches are left out: such matches are
short, and the head predicts the tokens after them without the index."""

_AT_ONCE = 1 << 21
"""Maximum number of tokens that are compared, or positions that are read, per step."""


@dataclass(frozen=True, eq=False)
class Found:
    """Matches of N contexts, at J levels."""

    length: Int[np.ndarray, "N"]
    """Length of the longest match; 0 if the last token does not occur."""
    level_length: Int[np.ndarray, "N J"]
    """Length of each level's match; 0 if there is no such level."""
    low: Int[np.ndarray, "N J"]
    """First rank, in the sorted corpus, of the positions of each level's match."""
    high: Int[np.ndarray, "N J"]
    """Rank after the last of these positions; ``high - low`` is the number of occurrences with a token after them."""

    @classmethod
    def joined(cls, parts: Sequence[Found]) -> Found:
        """Concatenates the results for several sets of contexts."""
        names = ("length", "level_length", "low", "high")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def counts(self) -> Int[np.ndarray, "N J"]:
        """Number of occurrences of each level's match; 0 if there is no such level."""
        counts: Int[np.ndarray, "N J"] = self.high - self.low
        return counts

    def widest(self) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
        """``low`` and ``high`` of each context's most frequent match, whose positions include those of all levels."""
        level = self.counts.argmax(1)[:, None]
        return np.take_along_axis(self.low, level, 1)[:, 0], np.take_along_axis(self.high, level, 1)[:, 0]

    def probabilities(self, index: NgramIndex, tokens: Int[np.ndarray, "N"]) -> Float[np.ndarray, "N J"]:
        """Share of the occurrences of each level's match that are followed by the context's token in ``tokens``."""
        low, high = self.widest()
        levels = self.low.shape[1]
        hits = np.zeros((len(low), levels))
        for part in _parts(high - low):
            row, rank = ranks_of(low[part], high[part])
            row += part.start
            held = index.next_tokens(rank) == tokens[row]
            row, rank = row[held], rank[held]
            for level in range(levels):
                inside = (rank >= self.low[row, level]) & (rank < self.high[row, level])
                hits[:, level] += np.bincount(row[inside], minlength=len(hits))
        shares: Float[np.ndarray, "N J"] = hits / np.maximum(self.counts, 1)
        return shares


def _parts(counts: Int[np.ndarray, "N"]) -> Iterator[slice]:
    # in groups of rows with a bounded number of positions
    ends, begin = counts.cumsum(), 0
    while begin < len(counts):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        yield slice(begin, end)
        begin = end


def ranks_of(
    low: Int[np.ndarray, "N"], high: Int[np.ndarray, "N"]
) -> tuple[Int[np.ndarray, "S"], Int[np.ndarray, "S"]]:
    """Returns, for each number from ``low[i]`` to ``high[i]`` (exclusive) of every i: the row i, and the number.

    >>> row, rank = ranks_of(np.array([5, 0, 2]), np.array([7, 0, 3]))
    >>> row.tolist(), rank.tolist()
    ([0, 0, 2], [5, 6, 2])
    """
    counts = high - low
    row = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(row)) - np.repeat(counts.cumsum() - counts, counts)
    return row, low[row] + within


def find_levels(
    index: NgramIndex, contexts: LastTokens, evidence: tuple[int, ...] = EVIDENCE, limit: int = LIMIT
) -> Found:
    """Finds, for each context and number in ``evidence``, the longest match with at least this many occurrences.

    A level whose match has more than ``limit`` occurrences is left out.
    """
    count, levels = len(contexts), len(evidence)
    length = np.zeros(count, dtype=np.int64)
    level_length, low, high = (np.zeros((count, levels), dtype=np.int64) for _ in range(3))
    for rows, queries, at, matched in index.longest(contexts):
        step = max(1, _AT_ONCE // (2 * evidence[-1] * queries.shape[1]))
        for begin in range(0, len(rows), step):
            part = slice(begin, begin + step)
            here, asked, where = rows[part], queries[part], at[part]
            length[here] = matched[part]
            lengths = _level_lengths(index, asked, where, evidence)
            level_length[here], low[here], high[here] = _ranges(index, asked, where, lengths, limit)
    return Found(length, level_length, low, high)


def _level_lengths(
    index: NgramIndex, queries: Int[np.ndarray, "M L"], at: Int[np.ndarray, "M"], evidence: tuple[int, ...]
) -> Int[np.ndarray, "M J"]:
    """For each level, length of the longest match with at least the level's number of occurrences; 0 without one.

    In the sorted order, positions that share more tokens with a query are nearer to it. So if a match occurs ``n``
    times or more, ``n`` adjacent positions among the ``n`` nearest on either side of the query share the match.
    """
    most = evidence[-1]
    ranks = at[:, None] + np.arange(-most, most)
    shared = index.common(ranks.reshape(-1), np.repeat(queries, 2 * most, 0)).reshape(ranks.shape)
    without = np.full((len(at), 1), queries.shape[1])
    before = np.concatenate([without, shared[:, :most][:, ::-1]], 1)  # [:, i]: tokens that the i nearest share
    after = np.concatenate([without, shared[:, most:]], 1)
    return np.stack(
        [np.minimum(before[:, : n + 1], after[:, : n + 1][:, ::-1]).max(1) for n in evidence],
        axis=1,
    )


def _ranges(
    index: NgramIndex,
    queries: Int[np.ndarray, "M L"],
    at: Int[np.ndarray, "M"],
    lengths: Int[np.ndarray, "M J"],
    limit: int,
) -> tuple[Int[np.ndarray, "M J"], Int[np.ndarray, "M J"], Int[np.ndarray, "M J"]]:
    """Length of each level's match, and its first and end rank; zeros if its positions are none or too many."""
    levels = lengths.shape[1]
    begin, end = np.maximum(at - limit - 1, 0), np.minimum(at + limit + 1, len(index))
    cut = np.arange(queries.shape[1] + 1) >= lengths.reshape(-1, 1)
    wide = np.repeat(np.pad(queries, ((0, 0), (0, 1)), constant_values=BELOW), levels, 0)
    near = [np.repeat(bound, levels) for bound in (begin, end)]
    low, high = (index.bisect(np.where(cut, mark, wide), *near).reshape(-1, levels) for mark in (BELOW, ABOVE))
    none = (lengths == 0) | (high - low > limit)
    return tuple(np.where(none, 0, found) for found in (lengths, low, high))  # type: ignore[return-value]


# -- The weight of each level, by the length of the longest match, fitted to held-out text.

LENGTHS = (1, 2, 3, 4, 5, 7, 9, 13, 17, 33, 65)
"""Shortest match length, in tokens, of each group of lengths. Each group has its own weights. Without a match, the head
predicts alone."""

PRIOR = 4.0
"""Strength of the prior, in positions: it pulls the weights of rare lengths to those of all lengths together."""

_STEPS, _PRECISION = 10_000, 1e-10
_TOLERANCE = 1e-9


class MatchWeights(Record):
    """Weights of a mixture of a head and the levels of a match, for each group of match lengths.

    If a context lacks a level, the head gets the share of this level, so that the shares still add up to one.
    """

    kind: Literal["match weights"] = "match weights"
    """Kind of file."""
    tokenizer: str | None = None
    """Fingerprint of the tokenizer; None if unknown."""
    model: str = ""
    """Name of the model used for the fit, for reports."""
    data: list[str] = Field(default_factory=list)
    """Names of the texts used for the fit, for reports."""
    tokens: int = Field(default=0, ge=0)
    """Number of tokens of these texts."""
    gain: float | None = None
    """Negative log-likelihood of the head alone minus that of the mixture with the best shares, on these texts, in nats
    per token; None if unknown."""
    low: float | None = None
    """Lower end of the gain's 95 % interval."""
    high: float | None = None
    """Upper end of the gain's 95 % interval. Fitted weights give the head everything unless the interval is above 0."""
    evidence: tuple[int, ...] = EVIDENCE
    """Minimum number of occurrences of each level's match."""
    limit: int = Field(default=LIMIT, ge=1)
    """Maximum number of occurrences of a match."""
    lengths: tuple[int, ...] = LENGTHS
    """Shortest match length, in tokens, of each group of lengths."""
    shares: list[list[float]]
    """For each group of lengths, the share of the head and that of each level."""

    @model_validator(mode="after")
    def _are_shares(self) -> MatchWeights:
        for name, numbers in (("evidence", self.evidence), ("lengths", self.lengths)):
            if not numbers or numbers[0] != 1 or list(numbers) != sorted(set(numbers)):
                raise ValueError(f"{name}: must rise from 1 ({list(numbers)} given); fit the weights again")
        if self.limit < self.evidence[-1]:
            raise ValueError(
                f"limit: must be at least {self.evidence[-1]}, the minimum count of the last level "
                f"({self.limit} given); raise it"
            )
        shape = (len(self.lengths), len(self.evidence) + 1)
        if len(self.shares) != shape[0] or any(len(row) != shape[1] for row in self.shares):
            raise ValueError(f"shares: must be {shape[0]} rows of {shape[1]} numbers; fit the weights again")
        shares = np.array(self.shares)
        if (shares < 0).any() or (abs(shares.sum(1) - 1) > _TOLERANCE).any():
            raise ValueError("shares: must be at least 0 and add up to 1 in each row; fit the weights again")
        if (shares[:, 0] <= 0).any():
            raise ValueError("shares: must be above 0 for the head in each row; fit the weights again")
        return self

    def at(self, found: Found) -> Float[np.ndarray, "N C"]:
        """For each context, the shares of the head (first) and of each level; each row sums to one."""
        table = torch.tensor(self.shares, dtype=torch.float64)
        return np.asarray(shares_at(found, table, self.lengths))


def shares_at(found: Found, shares: Float[Tensor, "G C"], lengths: Sequence[int]) -> Float[Tensor, "N C"]:
    """For each context, the shares of the head (column 0) and of each level, from the row for its match length.

    The head gets the shares of levels that a context lacks. Each row of the result adds up to one. Gradients reach
    ``shares``.
    """
    chosen = shares[torch.from_numpy(np.maximum(group_of(found.length, lengths), 0))]
    chosen = chosen / chosen.sum(1, keepdim=True)
    there = torch.from_numpy(found.counts > 0)
    lacking = chosen[:, 1:].masked_fill(there, 0.0).sum(1)
    levels = chosen[:, 1:].masked_fill(~there, 0.0)
    return torch.cat([(chosen[:, 0] + lacking)[:, None], levels], 1)


def head_alone(evidence: Sequence[int] = EVIDENCE, lengths: Sequence[int] = LENGTHS) -> list[list[float]]:
    """Shares for ``MatchWeights`` that give everything to the head."""
    return [[1.0, *[0.0] * len(evidence)] for _ in lengths]


def group_of(length: Int[np.ndarray, "N"], lengths: Sequence[int]) -> Int[np.ndarray, "N"]:
    """Group of each match length; -1: no match (length 0). ``lengths`` has the shortest length of each group.

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
    """Fits the weights that make a text most likely, with a prior (``PRIOR``). The text must not be in the corpus.

    The log-likelihood of a mixture is concave in its weights, so expectation maximisation finds its maximum.

    ``log_head`` has the log-probability of each token under the head alone, and ``levels`` the token's probability
    under each level of ``found``. ``evidence`` and ``limit`` are those with which ``find_levels`` returned ``found``.
    ``lengths`` has the shortest match length of each group with weights of its own.

    Raises:
        ValueError: If there are no tokens, or the head gives a token the probability 0.
    """
    if not len(log_head):
        raise ValueError("data: must have tokens to fit weights to (none given); give some text")
    if not np.isfinite(log_head).all():
        raise ValueError(
            f"data: must be possible to the head alone (token {int(np.argmin(np.isfinite(log_head)))} is not); give "
            "another text or head"
        )
    # relative to the larger number, so that neither underflows
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
        parts: Probability of each observation under each component. Any row may be multiplied by a factor.
        prior: Weights of the prior, all above 0; the prior counts like ``PRIOR`` observations.

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
