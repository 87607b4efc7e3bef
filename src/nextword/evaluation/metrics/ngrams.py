"""Gives each distinct n-gram of many texts an id, by sorting: O(T log T) steps for T tokens and each length n."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

LONGEST = 1000
"""Maximum length n of an n-gram. Each length takes one pass over all tokens."""


@dataclass(frozen=True)
class NGrams:
    """All n-grams of N texts, in order of occurrence.

    >>> grams = TokenTexts.of([[5, 7, 5, 7], [7, 5]]).ngrams(2)
    >>> grams.ids.tolist(), grams.texts.tolist(), grams.distinct
    ([0, 1, 0, 1], [0, 0, 0, 1], 2)
    """

    ids: Int[np.ndarray, "G"]
    """Id of each n-gram, from 0 to ``distinct`` - 1. Equal n-grams have equal ids, also in different texts."""
    texts: Int[np.ndarray, "G"]
    """Index of the text of each n-gram, ascending."""
    distinct: int
    """Number of distinct n-grams."""
    number_of_texts: int
    """Number of texts N. It includes texts shorter than n, which have no n-grams."""

    def totals(self) -> Int[np.ndarray, "N"]:
        """Number of n-grams of each text."""
        return np.bincount(self.texts, minlength=self.number_of_texts)

    def counts(self) -> tuple[Int[np.ndarray, "U"], Int[np.ndarray, "U"], Int[np.ndarray, "U"]]:
        """Text index, n-gram id and count of each distinct n-gram of each text, ordered by text index, then by id."""
        pairs, counts = np.unique(self.texts * np.int64(max(self.distinct, 1)) + self.ids, return_counts=True)
        return pairs // max(self.distinct, 1), pairs % max(self.distinct, 1), counts


@dataclass(frozen=True)
class TokenTexts:
    """N texts of token ids, concatenated."""

    tokens: Int[np.ndarray, "M"]
    """Token ids of all texts, concatenated."""
    lengths: Int[np.ndarray, "N"]
    """Length of each text. It may be 0."""

    @classmethod
    def of(cls, texts: Iterable[Sequence[int] | Int[np.ndarray, "T"]]) -> TokenTexts:
        """Concatenate lists or arrays of token ids."""
        arrays = [np.asarray(text, dtype=np.int64) for text in texts]
        lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        return cls(np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def joined(self, other: TokenTexts) -> TokenTexts:
        """These texts, then the ``other`` texts, in one object. Then ``ngrams`` gives equal n-grams the same id."""
        return TokenTexts(np.concatenate([self.tokens, other.tokens]), np.concatenate([self.lengths, other.lengths]))

    def ngrams(self, n: int) -> NGrams:
        """Return all n-grams of length ``n``.

        Raises:
            ValueError: If ``n`` is below 1 or above ``LONGEST``.
        """
        return deque(self.ngrams_up_to(n), maxlen=1).pop()

    def ngrams_up_to(self, longest: int) -> Iterator[NGrams]:
        """Yield the n-grams for n = 1, 2, ..., ``longest``. Each pass extends the previous n-grams by one token.

        Raises:
            ValueError: If ``longest`` is below 1 or above ``LONGEST``.

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
        # number of tokens from each token to the end of its text
        left = np.repeat(np.cumsum(self.lengths), self.lengths) - np.arange(len(self.tokens))
        distinct, single = np.unique(self.tokens, return_inverse=True)
        size, ids, starts = max(len(distinct), 1), single, np.arange(len(single))
        for n in range(1, longest + 1):
            if n > 1:
                whole = left[starts] >= n
                starts = starts[whole]
                # numbers without gaps are small enough for a 64-bit product
                distinct, ids = np.unique(ids[whole] * size + single[starts + n - 1], return_inverse=True)
            yield NGrams(ids.astype(np.int64), text[starts], len(distinct), len(self))
