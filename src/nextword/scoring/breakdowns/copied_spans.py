"""Tokens inside and outside of spans that are copied."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from nextword.scoring.breakdowns.breakdown import Breakdown
from nextword.scoring.breakdowns.earlier_tokens import ngram_keys, previous
from nextword.scoring.measurement.scored_texts import ScoredText


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
        found = np.zeros(len(text.target), dtype=np.int64)
        anywhere = np.zeros(len(text.target), dtype=bool)
        for group, ends in self._ends(text).items():
            # copied: a copied n-gram ends at one of the n places from here on; the token before is in it too for all
            # but the last of them, where this token is its first.
            anywhere |= _within(ends, self.n)[begin:]
            found[_within(ends, self.n - 1)[begin:]] = group
        return np.where((found == 0) & anywhere, 1, found)

    def _ends(self, text: ScoredText) -> dict[int, Bool[np.ndarray, "M"]]:
        """By group, whether an n-gram that ends at each place of prompt and text is copied; the strongest group last."""
        stream = np.concatenate([text.prompt, text.target])
        others = [text.copied_from[name] for name in ("auxiliary", "source") if name in text.copied_from]
        groups = [group for name, group in (("auxiliary", 4), ("source", 3)) if name in text.copied_from]
        # Numbers that no token has keep n-grams from reaching over from one text into the next.
        parts = [piece for mark, other in enumerate(others) for piece in (other, np.array([-1 - mark]))]
        whole = np.concatenate([*parts, stream])
        if len(stream) < self.n:
            return {2: np.zeros(len(stream), dtype=bool)}
        keys = ngram_keys(whole, self.n)
        own = keys[len(whole) - len(stream) :]
        found = {2: self._of_text(text, previous(own))}
        cut = 0
        for group, other in zip(groups, others, strict=True):
            found[group] = self._ending(np.isin(own, keys[cut : cut + max(0, len(other) - self.n + 1)]))
            cut += len(other) + 1
        return found

    def _of_text(self, text: ScoredText, earlier: Int[np.ndarray, "K"]) -> Bool[np.ndarray, "M"]:
        begin = len(text.prompt)
        visible = np.concatenate([np.zeros(begin, dtype=np.int64), text.visible])
        return self._ending((earlier >= 0) & (earlier >= visible[self.n - 1 :]))

    def _ending(self, beginning: Bool[np.ndarray, "K"]) -> Bool[np.ndarray, "M"]:
        """From the n-grams that begin at each place to those that end there."""
        return np.concatenate([np.zeros(self.n - 1, dtype=bool), beginning])


def _within(ends: Bool[np.ndarray, "M"], places: int) -> Bool[np.ndarray, "M"]:
    """Whether any of so many places from each one on is true.

    >>> _within(np.array([False, False, True, False]), 2).tolist()
    [False, True, True, False]
    """
    found = ends.copy()
    for step in range(1, places):
        found[:-step] |= ends[step:]
    return found
