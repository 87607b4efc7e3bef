"""n-grams of every length up to n in one go: each is a shorter one and a token more, so none is numbered twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nextword.metrics.ngrams import NGrams, TokenTexts


def ngrams_up_to(texts: TokenTexts, longest: int) -> Iterator[NGrams]:
    """The n-grams for n = 1, 2, ..., ``longest``; the numbers of each length are those of ``TokenTexts.ngrams``.

    Raises:
        ValueError: ``longest`` is below 1.

    >>> [grams.ids.tolist() for grams in ngrams_up_to(TokenTexts.of([[5, 7, 5, 7], [7, 5]]), 2)]
    [[0, 1, 0, 1, 1, 0], [0, 1, 0, 1]]
    """
    if longest < 1:
        raise ValueError(f"n-grams: the longest must have at least 1 token, got {longest}")
    text = np.repeat(np.arange(len(texts)), texts.lengths)
    left = np.repeat(np.cumsum(texts.lengths), texts.lengths) - np.arange(len(texts.tokens))  # tokens to the text's end
    distinct, single = np.unique(texts.tokens, return_inverse=True)
    size, ids, starts = max(len(distinct), 1), single, np.arange(len(single))
    for n in range(1, longest + 1):
        if n > 1:
            whole = left[starts] >= n
            starts = starts[whole]
            # Numbers without gaps keep the product within 64 bits.
            distinct, ids = np.unique(ids[whole] * size + single[starts + n - 1], return_inverse=True)
        yield NGrams(ids.astype(np.int64), text[starts], len(distinct), len(texts))
