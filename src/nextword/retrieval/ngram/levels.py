"""Levels of a match: the longest one, and shorter ones that occur more often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nextword.retrieval.ngram.text_index import ABOVE, BELOW, LastTokens, TextIndex

EVIDENCE = (1, 4, 16, 64)
"""The level of each is the longest match that occurs so often: the first is the longest match of all."""

LIMIT = 1024
"""A match that occurs more often is no level: it is short, and a head knows about it."""

_AT_ONCE = 1 << 21
"""Tokens compared, or places looked at, in one step."""


@dataclass(frozen=True, eq=False)
class Found:
    """What was found for N contexts, at J levels.

    Attributes:
        length: Tokens of the longest match; 0 where the last token does not occur.
        level_length: Tokens of each level's match; 0 where there is no such level.
        low: Where its places begin in the order of the corpus.
        high: Where they end; ``high - low`` is how often the match occurs with a token after it.
    """

    length: Int[np.ndarray, "N"]
    level_length: Int[np.ndarray, "N J"]
    low: Int[np.ndarray, "N J"]
    high: Int[np.ndarray, "N J"]

    @classmethod
    def joined(cls, parts: Sequence[Found]) -> Found:
        """The contexts of several, one after the other."""
        names = ("length", "level_length", "low", "high")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def counts(self) -> Int[np.ndarray, "N J"]:
        """How often each level's match occurs; 0 where there is no such level."""
        counts: Int[np.ndarray, "N J"] = self.high - self.low
        return counts

    def widest(self) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
        """Where the places of all levels begin and end: every level's lie within those of the next."""
        level = self.counts.argmax(1)[:, None]
        return np.take_along_axis(self.low, level, 1)[:, 0], np.take_along_axis(self.high, level, 1)[:, 0]

    def probabilities(self, index: TextIndex, tokens: Int[np.ndarray, "N"]) -> Float[np.ndarray, "N J"]:
        """By level, the share of its places that one token comes after; 0 where there is no such level."""
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
    """Rows that have a bounded number of places together."""
    ends, begin = counts.cumsum(), 0
    while begin < len(counts):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        yield slice(begin, end)
        begin = end


def ranks_of(
    low: Int[np.ndarray, "N"], high: Int[np.ndarray, "N"]
) -> tuple[Int[np.ndarray, "S"], Int[np.ndarray, "S"]]:
    """All numbers from ``low`` to ``high`` of every row, one row after the other, and the row of each.

    >>> row, rank = ranks_of(np.array([5, 0, 2]), np.array([7, 0, 3]))
    >>> row.tolist(), rank.tolist()
    ([0, 0, 2], [5, 6, 2])
    """
    counts = high - low
    row = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(row)) - np.repeat(counts.cumsum() - counts, counts)
    return row, low[row] + within


def find_levels(
    index: TextIndex, contexts: LastTokens, evidence: tuple[int, ...] = EVIDENCE, limit: int = LIMIT
) -> Found:
    """Looks up the last tokens of contexts, all at once.

    Args:
        index: The corpus.
        contexts: What comes before the tokens that are asked for.
        evidence: How often the match of each level occurs at least, in rising order.
        limit: How often a match of a level occurs at most.
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
    index: TextIndex, queries: Int[np.ndarray, "M L"], at: Int[np.ndarray, "M"], evidence: tuple[int, ...]
) -> Int[np.ndarray, "M J"]:
    """Tokens of the longest match that occurs as often as each level asks; 0 where none does.

    Places that share more tokens with a query are nearer to it in the order. So the places of a match that occurs ``n``
    times or more are among the ``n`` nearest on either side, and ``n`` of them in a row have the match in common.
    """
    most = evidence[-1]
    ranks = at[:, None] + np.arange(-most, most)
    shared = index.common(ranks.reshape(-1), np.repeat(queries, 2 * most, 0)).reshape(ranks.shape)
    without = np.full((len(at), 1), queries.shape[1])
    before = np.concatenate([without, shared[:, :most][:, ::-1]], 1)  # [:, i]: what the i nearest share
    after = np.concatenate([without, shared[:, most:]], 1)
    return np.stack(
        [np.minimum(before[:, : n + 1], after[:, : n + 1][:, ::-1]).max(1) for n in evidence],
        axis=1,
    )


def _ranges(
    index: TextIndex,
    queries: Int[np.ndarray, "M L"],
    at: Int[np.ndarray, "M"],
    lengths: Int[np.ndarray, "M J"],
    limit: int,
) -> tuple[Int[np.ndarray, "M J"], Int[np.ndarray, "M J"], Int[np.ndarray, "M J"]]:
    """Length of each level's match and where its places begin and end; zeros where they are none or too many."""
    levels = lengths.shape[1]
    begin, end = np.maximum(at - limit - 1, 0), np.minimum(at + limit + 1, len(index))
    cut = np.arange(queries.shape[1] + 1) >= lengths.reshape(-1, 1)
    wide = np.repeat(np.pad(queries, ((0, 0), (0, 1)), constant_values=BELOW), levels, 0)
    near = [np.repeat(bound, levels) for bound in (begin, end)]
    low, high = (index.bisect(np.where(cut, mark, wide), *near).reshape(-1, levels) for mark in (BELOW, ABOVE))
    none = (lengths == 0) | (high - low > limit)
    return tuple(np.where(none, 0, found) for found in (lengths, low, high))  # type: ignore[return-value]
