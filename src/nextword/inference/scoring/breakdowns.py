"""Breakdowns of scores: each breakdown divides the tokens into groups, such as new and repeated tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int

from nextword.evaluation.metrics.frequency_groups import BOUNDARIES, NAMES, frequency_groups
from nextword.inference.scoring.measurement.scored_texts import ScoredText

SPECIAL = "special tokens"
"""Group of special tokens, such as the end token of an encoder-decoder model."""


class Breakdown(ABC):
    """Assigns each token to one group, from the text alone, not from scores. ``key`` names the breakdown in records."""

    key: str
    title: str
    meaning: str
    groups: tuple[str, ...]

    @abstractmethod
    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """Index in ``names`` of each token's group. For special tokens the index is ignored."""

    def codes(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """Index in ``names`` of each token's group. Special tokens are in the last group."""
        return np.where(text.is_special, len(self.groups), self.group_of(text))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all groups."""
        return (*self.groups, SPECIAL)


# -- Tokens inside and outside copied spans.


class CopiedSpans(Breakdown):
    """Groups tokens by whether they belong to a span of at least ``n`` tokens that the model has already read."""

    key = "copied"
    title = "Copied spans"
    groups = (
        "not copied", "first token of a copied span", "continues copying the text before",
        "continues copying the source", "continues copying the auxiliary text",
    )  # fmt: skip

    def __init__(self, n: int) -> None:
        self.n = n
        self.meaning = (
            f"Copied: part of at least {n} consecutive tokens that also occur, in the same order, in the source or "
            "auxiliary text, or earlier in the text or its prompt, where the model reads them. The first token of such "
            "a span has its own group, because it is harder to predict than the rest."
        )

    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """Index in ``names`` of each token's group."""
        begin = len(text.prompt)
        found = np.zeros(begin + len(text.target), dtype=np.int64)
        copied = np.zeros(len(found), dtype=bool)
        for group, begins in self._copied_begins(text):
            ends = np.concatenate([np.zeros(self.n - 1, dtype=bool), begins])
            # A copied n-gram contains this token if it ends at this position or at one of the next n - 1. It contains
            # the token before as well, unless it ends at the last of these positions.
            copied |= _any_of_next(ends, self.n)
            found[_any_of_next(ends, self.n - 1)] = group
        return np.where(copied & (found == 0), 1, found)[begin:]

    def _copied_begins(self, text: ScoredText) -> Iterator[tuple[int, Bool[np.ndarray, "_K"]]]:
        """The positions at which copied n-grams begin in prompt and text, by group. Later groups take precedence."""
        stream = np.concatenate([text.prompt, text.target])
        if len(stream) < self.n:
            return
        others = [(group, text.copied_from.get(name, stream[:0])) for group, name in ((4, "auxiliary"), (3, "source"))]
        # numbers that are not tokens separate the texts, so that no n-gram contains tokens of two texts
        parts = [np.append(other, -group) for group, other in others]
        keys = ngram_keys(np.concatenate([*parts, stream]), self.n)
        first = len(parts[0]) + len(parts[1])
        earlier = previous(keys[first:])
        visible = np.concatenate([np.zeros(len(text.prompt), dtype=np.int64), text.visible])[self.n - 1 :]
        yield 2, (earlier >= 0) & (earlier >= visible)
        yield 4, np.isin(keys[first:], keys[: len(parts[0])])
        yield 3, np.isin(keys[first:], keys[len(parts[0]) : first])


def _any_of_next(ends: Bool[np.ndarray, "M"], positions: int) -> Bool[np.ndarray, "M"]:
    """Whether any of the next ``positions`` positions is true, for each position.

    >>> _any_of_next(np.array([False, False, True, False]), 2).tolist()
    [False, True, True, False]
    """
    found = ends.copy()
    for step in range(1, positions):
        found[:-step] |= ends[step:]
    return found


# -- New tokens, and tokens that the model has read before.


class NewAndRepeated(Breakdown):
    """Groups tokens by whether, and where, the model has already read the same token."""

    key = "repetition"
    title = "New and repeated tokens"
    meaning = (
        "Repeated: the same token stands in the source or auxiliary text, or else earlier in the text or its prompt, "
        "where the model sees it. Too far back: it stands earlier, but out of the model's window. New: it stands "
        "nowhere before."
    )
    groups = (
        "new", "repeated from the text before", "repeated from the source", "repeated from the auxiliary text",
        "repeated from too far back",
    )  # fmt: skip

    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """Index in ``names`` of each token's group."""
        begin = len(text.prompt)
        last = previous(np.concatenate([text.prompt, text.target]))[begin:]
        found = np.select([last >= text.visible, last >= 0], [1, 4], 0)
        for name, group in (("auxiliary", 3), ("source", 2)):
            if name in text.copied_from:
                found[np.isin(text.target, text.copied_from[name])] = group
        return found


# -- Frequent, medium, rare and very rare tokens.


class FrequencyBands(Breakdown):
    """Groups tokens by frequency, as in F2-Softmax (Choi et al., 2020, figure 2).

    ``counts`` has the number of occurrences of each token in some texts, which ``source`` names.
    """

    key = "frequency"
    title = "Frequent and rare tokens"
    groups = (*NAMES, "never counted")

    def __init__(self, counts: Int[np.ndarray, "V"], source: str) -> None:
        # one byte per token, because the array is sent to other processes with every chunk of texts
        self._groups = np.where(counts > 0, frequency_groups(counts), len(NAMES)).astype(np.int8)
        ends = ", ".join(f"{100 * end:g}" for end in BOUNDARIES)
        self.meaning = (
            f"Tokens sorted by how often they occur in {source}, most frequent first, and cut where they make up "
            f"{ends} % of all: {', '.join(NAMES)}."
        )

    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """Index in ``names`` of each token's group. A token whose id is beyond ``counts`` has the count 0."""
        known = np.append(self._groups, np.int8(len(NAMES)))
        found: Int[np.ndarray, "T"] = known[np.minimum(text.target, len(self._groups))]
        return found


# -- Tokens by their position in a text.

ENDS = (16, 32, 64, 128, 256, 512, 1024)


class TextPosition(Breakdown):
    """Groups tokens by position in their text: the first 16 tokens, then up to 32, 64, ..., 1,024, then the rest."""

    key = "position"
    title = "Position in the text"
    meaning = "Number of the token in its text, from 1; tokens of a prompt or source are not counted."
    groups = (
        *(f"{begin + 1:,} to {end:,}" for begin, end in zip((0, *ENDS[:-1]), ENDS, strict=True)),
        f"from {ENDS[-1] + 1:,} on",
    )

    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """Index in ``names`` of each token's group."""
        return np.searchsorted(np.array(ENDS), np.arange(1, len(text.target) + 1))


# -- Earlier occurrences of the same token or n-gram.


def previous(keys: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
    """For each position, the last earlier position with an equal key; -1 if there is no such position.

    >>> previous(np.array([7, 8, 7, 7])).tolist()
    [-1, -1, 0, 2]
    """
    found = np.full(len(keys), -1, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    equal = keys[order][1:] == keys[order][:-1]
    found[order[1:][equal]] = order[:-1][equal]
    return found


def ngram_keys(ids: Int[np.ndarray, "M"], n: int) -> Int[np.ndarray, "_K"]:
    """For each position but the last ``n - 1``, an id of the n-gram that begins there. Equal n-grams have equal ids.

    >>> ngram_keys(np.array([5, 6, 5, 6]), 2).tolist()
    [0, 1, 0]
    """
    keys = np.unique(ids, return_inverse=True)[1].astype(np.int64)
    single, size = keys, int(keys.max(initial=0)) + 1
    for step in range(1, n):
        # numbers are assigned again after each token, so that no product exceeds 64 bits
        longer = keys[:-1] * size + single[step:]
        keys = np.unique(longer, return_inverse=True)[1].astype(np.int64)
    return keys
