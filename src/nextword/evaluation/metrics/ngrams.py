"""n-grams of many texts as numbers: counting becomes sorting, and stays linear (times a logarithm) in the tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

LONGEST = 1000
"""Tokens of the longest n-grams that are counted: each n takes another pass over all tokens."""


@dataclass(frozen=True)
class NGrams:
    """All n-grams of N texts, in order.

    >>> grams = TokenTexts.of([[5, 7, 5, 7], [7, 5]]).ngrams(2)
    >>> grams.ids.tolist(), grams.texts.tolist(), grams.distinct
    ([0, 1, 0, 1], [0, 0, 0, 1], 2)
    """

    ids: Int[np.ndarray, "G"]
    """A number for each n-gram, equal for equal n-grams of any of the texts, from 0 to ``distinct`` - 1."""
    texts: Int[np.ndarray, "G"]
    """Which text each is in; ascending."""
    distinct: int
    """How many different n-grams there are."""
    number_of_texts: int
    """N; a text shorter than n has no n-grams."""

    def totals(self) -> Int[np.ndarray, "N"]:
        """n-grams of each text."""
        return np.bincount(self.texts, minlength=self.number_of_texts)

    def counts(self) -> tuple[Int[np.ndarray, "U"], Int[np.ndarray, "U"], Int[np.ndarray, "U"]]:
        """Text, n-gram and count of each different n-gram of each text, ordered by text, then n-gram."""
        pairs, counts = np.unique(self.texts * np.int64(max(self.distinct, 1)) + self.ids, return_counts=True)
        return pairs // max(self.distinct, 1), pairs % max(self.distinct, 1), counts


@dataclass(frozen=True)
class TokenTexts:
    """N texts of token ids, end to end."""

    tokens: Int[np.ndarray, "M"]
    """All tokens, text after text."""
    lengths: Int[np.ndarray, "N"]
    """Tokens of each text; may be 0."""

    @classmethod
    def of(cls, texts: Iterable[Sequence[int] | Int[np.ndarray, "T"]]) -> TokenTexts:
        """From lists or arrays of token ids."""
        arrays = [np.asarray(text, dtype=np.int64) for text in texts]
        lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        return cls(np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def joined(self, other: TokenTexts) -> TokenTexts:
        """These texts, then those of ``other``, so that n-grams of both get common numbers."""
        return TokenTexts(np.concatenate([self.tokens, other.tokens]), np.concatenate([self.lengths, other.lengths]))

    def ngrams(self, n: int) -> NGrams:
        """All n-grams.

        Raises:
            ValueError: ``n`` is below 1 or above ``LONGEST``.
        """
        return deque(self.ngrams_up_to(n), maxlen=1).pop()

    def ngrams_up_to(self, longest: int) -> Iterator[NGrams]:
        """The n-grams for n = 1, 2, ..., ``longest``, each made of a shorter one and a token more.

        Raises:
            ValueError: ``longest`` is below 1 or above ``LONGEST``.

        >>> [grams.ids.tolist() for grams in TokenTexts.of([[5, 7, 5, 7], [7, 5]]).ngrams_up_to(2)]
        [[0, 1, 0, 1, 1, 0], [0, 1, 0, 1]]
        """
        if longest < 1:
            raise ValueError(f"n-grams: n must be at least 1 ({longest} given)")
        if longest > LONGEST:
            raise ValueError(
                f"n-grams: n must be at most {LONGEST:,} ({longest:,} given); each n takes a pass over all tokens"
            )
        text = np.repeat(np.arange(len(self)), self.lengths)
        # how many tokens there are from each to the end of its text
        left = np.repeat(np.cumsum(self.lengths), self.lengths) - np.arange(len(self.tokens))
        distinct, single = np.unique(self.tokens, return_inverse=True)
        size, ids, starts = max(len(distinct), 1), single, np.arange(len(single))
        for n in range(1, longest + 1):
            if n > 1:
                whole = left[starts] >= n
                starts = starts[whole]
                # Numbers without gaps keep the product within 64 bits.
                distinct, ids = np.unique(ids[whole] * size + single[starts + n - 1], return_inverse=True)
            yield NGrams(ids.astype(np.int64), text[starts], len(distinct), len(self))
