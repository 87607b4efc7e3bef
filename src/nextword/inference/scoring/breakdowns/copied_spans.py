"""Tokens inside and outside of spans that are copied."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int

from nextword.inference.scoring.breakdowns.breakdown import Breakdown
from nextword.inference.scoring.breakdowns.earlier_tokens import ngram_keys, previous
from nextword.inference.scoring.measurement.scored_texts import ScoredText


class CopiedSpans(Breakdown):
    """Whether a token is part of an n-gram that stood in what the model reads.

    Args:
        n: Tokens that a copied span has at least.
    """

    key = "copied"
    title = "Copied spans"
    groups = (
        "not copied", "first token of a copied span", "goes on copying the text before", "goes on copying the source",
        "goes on copying the auxiliary text",
    )  # fmt: skip

    def __init__(self, n: int) -> None:
        self.n = n
        self.meaning = (
            f"Copied: part of {n} tokens or more that stand, in the same order, in the source or auxiliary text, or "
            "else earlier in the text or its prompt, where the model sees them. The first token of such a span is "
            "apart: that copying begins there must be guessed, and how it goes on can be read."
        )

    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """The group of each token."""
        begin = len(text.prompt)
        found = np.zeros(begin + len(text.target), dtype=np.int64)
        copied = np.zeros(len(found), dtype=bool)
        for group, ends in self._copied_ends(text):
            # A copied n-gram that ends at this place or one of the n - 1 after it has this token in it, and, but for
            # the last of these places, the token before it too.
            copied |= _any_of_next(ends, self.n)
            found[_any_of_next(ends, self.n - 1)] = group
        return np.where(copied & (found == 0), 1, found)[begin:]

    def _copied_ends(self, text: ScoredText) -> Iterator[tuple[int, Bool[np.ndarray, "M"]]]:
        """By group, the places of prompt and text at which a copied n-gram ends; groups that go before others last."""
        stream = np.concatenate([text.prompt, text.target])
        if len(stream) < self.n:
            return
        others = [(group, text.copied_from.get(name, stream[:0])) for group, name in ((4, "auxiliary"), (3, "source"))]
        # Numbers that no token has keep n-grams from reaching over from one text into the next.
        parts = [np.append(other, -group) for group, other in others]
        keys = ngram_keys(np.concatenate([*parts, stream]), self.n)
        first = len(parts[0]) + len(parts[1])
        earlier = previous(keys[first:])
        visible = np.concatenate([np.zeros(len(text.prompt), dtype=np.int64), text.visible])[self.n - 1 :]
        yield 2, self._ends((earlier >= 0) & (earlier >= visible))
        yield 4, self._ends(np.isin(keys[first:], keys[: len(parts[0])]))
        yield 3, self._ends(np.isin(keys[first:], keys[len(parts[0]) : first]))

    def _ends(self, begins: Bool[np.ndarray, "K"]) -> Bool[np.ndarray, "M"]:
        """From the n-grams that begin at each place to those that end there."""
        return np.concatenate([np.zeros(self.n - 1, dtype=bool), begins])


def _any_of_next(ends: Bool[np.ndarray, "M"], places: int) -> Bool[np.ndarray, "M"]:
    """Whether any of so many places from each one on is true.

    >>> _any_of_next(np.array([False, False, True, False]), 2).tolist()
    [False, True, True, False]
    """
    found = ends.copy()
    for step in range(1, places):
        found[:-step] |= ends[step:]
    return found
