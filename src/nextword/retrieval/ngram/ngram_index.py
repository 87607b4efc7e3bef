"""Reads n-gram indexes: finds the positions of a corpus at which given tokens end, by binary search."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from nextword.retrieval.ngram.building import BETWEEN
from nextword.retrieval.ngram.manifest import NAMES, ORDER, STARTS, STREAM, NgramManifest

BELOW = -1
"""Number in a query instead of its missing tokens. It sorts before every token."""

ABOVE = 1 << 40
"""Number in a query instead of its missing tokens. It sorts after every token."""

_SAMPLES, _SAMPLE = 64, 1024
"""Number of samples of the corpus in its fingerprint, and tokens per sample."""


@dataclass(frozen=True)
class StoredPosition:
    """Position of a token in the corpus."""

    document: str
    """Name of the token's document."""
    offset: int
    """Number of tokens before the token in its document."""


class NgramIndex:
    """The positions of a corpus, sorted by the token at each position, then by the token before it, and so on.

    So positions at which the same tokens end are adjacent. The index of a position in this order is its rank; the last
    position of each document is left out. A query is an array with the last tokens of a context in reverse order, each
    id plus one. A query longer than the context is filled with ``BELOW`` or ``ABOVE``. The files in ``folder`` are
    memory-mapped, so only parts of them are read.

    Raises:
        ValueError: If ``folder`` is not a finished index, or one of its files is missing or truncated.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = NgramManifest.of(folder)
        self._stream: Int[np.ndarray, "M"] = self._mapped(STREAM, self.manifest.length)
        self._order: Int[np.ndarray, "S"] = self._mapped(ORDER, self.manifest.places)
        self._starts: Int[np.ndarray, "B"] = self._mapped(STARTS, self.manifest.documents)

    def _mapped(self, name: str, length: int) -> np.ndarray:
        path = self.folder / name
        try:
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as fault:
            raise ValueError(f"{path}: must be whole ({fault}); build the index again") from None
        if found.shape != (length,):
            raise ValueError(f"{path}: must have {length:,} entries ({found.shape} given); build the index again")
        return np.asarray(found)

    def __len__(self) -> int:
        return len(self._order)  # positions that have a token after them

    @property
    def tokenizer(self) -> str:
        """Fingerprint of the tokenizer that made the corpus's tokens."""
        return self.manifest.tokenizer

    def fingerprint(self) -> str:
        """SHA-256 of the corpus's sizes, tokenizer and sampled tokens. It does not depend on the index's folder."""
        digest = hashlib.sha256(self.manifest.model_dump_json(exclude={"data"}).encode())
        for begin in np.linspace(0, max(0, len(self._stream) - _SAMPLE), _SAMPLES, dtype=np.int64):
            digest.update(self._stream[begin : begin + _SAMPLE].astype("<u4").tobytes())
        return digest.hexdigest()

    @cached_property
    def names(self) -> list[str]:
        """Names of the documents. The number of a document is its index in this list."""
        try:
            found: Any = json.loads((self.folder / NAMES).read_text(encoding="utf-8"))
        except (OSError, ValueError) as fault:
            raise ValueError(f"{self.folder / NAMES}: must be whole ({fault}); build the index again") from None
        return [str(name) for name in found]

    def bisect(
        self,
        queries: Int[np.ndarray, "M L"],
        low: Int[np.ndarray, "M"] | None = None,
        high: Int[np.ndarray, "M"] | None = None,
    ) -> Int[np.ndarray, "M"]:
        """Counts the positions sorted before each query. ``low`` and ``high`` are bounds of these counts, if known."""
        low = np.zeros(len(queries), dtype=np.int64) if low is None else low.astype(np.int64)
        high = np.full(len(queries), len(self), dtype=np.int64) if high is None else high.astype(np.int64)
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_]) >> 1
            asked = queries[open_]
            tokens = self._before(middle, asked.shape[1])
            first = (tokens != asked).argmax(1)[:, None]  # 0 if no token differs; then the comparison below is false
            less = (np.take_along_axis(tokens, first, 1) < np.take_along_axis(asked, first, 1))[:, 0]
            low[open_[less]] = middle[less] + 1
            high[open_[~less]] = middle[~less]
        return low

    def common(self, ranks: Int[np.ndarray, "M"], queries: Int[np.ndarray, "M L"]) -> Int[np.ndarray, "M"]:
        """For each rank, the number of last tokens that its position shares with its query; 0 outside the index."""
        inside = (ranks >= 0) & (ranks < len(self))
        differs = self._before(np.where(inside, ranks, 0), queries.shape[1]) != queries
        shared = np.where(differs.any(1), differs.argmax(1), queries.shape[1])
        return np.where(inside, shared, 0)

    def _before(self, ranks: Int[np.ndarray, "M"], length: int) -> Int[np.ndarray, "M L"]:
        """The tokens up to the positions at ``ranks``, in reverse order, each plus one."""
        at = self._order[ranks].astype(np.int64)[:, None] + np.arange(length)
        # beyond the end is only the mark that ends the stream, which is in no query
        tokens: Int[np.ndarray, "M L"] = self._stream[np.minimum(at, len(self._stream) - 1)].astype(np.int64)
        return tokens

    def next_tokens(self, ranks: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
        """For each of ``ranks``, the token that follows the position with this rank in the corpus."""
        tokens: Int[np.ndarray, "M"] = self._stream[self._order[ranks].astype(np.int64) - 1].astype(np.int64) - 1
        return tokens

    def next_positions(self, ranks: Int[np.ndarray, "M"]) -> list[StoredPosition]:
        """The positions of the tokens that ``next_tokens`` returns, with the names of their documents."""
        documents, offsets = self.next_offsets(ranks)
        return [
            StoredPosition(self.names[document], int(offset))
            for document, offset in zip(documents, offsets, strict=True)
        ]

    def next_offsets(self, ranks: Int[np.ndarray, "M"]) -> tuple[Int[np.ndarray, "M"], Int[np.ndarray, "M"]]:
        """The positions of the tokens that ``next_tokens`` returns: document numbers (M,) and offsets (M,)."""
        forward = len(self._stream) - self._order[ranks].astype(np.int64)  # one more than the position before it
        documents = np.searchsorted(self._starts, forward, side="right") - 1
        return documents, forward - self._starts[documents]

    def tokens_of(self, document: int, begin: int, end: int) -> Int[np.ndarray, "T"]:
        """Tokens of ``document`` from offset ``begin`` to ``end`` (exclusive), clipped to the document."""
        start = int(self._starts[document])
        after = int(self._starts[document + 1]) if document + 1 < len(self._starts) else len(self._stream)
        first, last = start + max(begin, 0), min(start + end, after - 1)
        if last <= first:
            return np.zeros(0, dtype=np.int64)
        return self._stream[len(self._stream) - last : len(self._stream) - first][::-1].astype(np.int64) - 1

    def stretch(self, document: int, first: int, last: int) -> tuple[list[int], int]:
        """Tokens of ``document`` from offset max(0, ``first``) to ``last`` (inclusive), and the first one's offset."""
        first = max(0, first)
        return self.tokens_of(document, first, last + 1).tolist(), first

    def longest(
        self, contexts: LastTokens, start: int = 8
    ) -> list[tuple[Int[np.ndarray, "M"], Int[np.ndarray, "M L"], Int[np.ndarray, "M"], Int[np.ndarray, "M"]]]:
        """Finds the longest match of each context: as many of its last tokens as occur consecutively in the corpus.

        The first queries have ``start`` tokens. A context whose whole query matches gets a longer query. The result has
        a group of four arrays per length of queries: the indices of the contexts, their queries, the number of
        positions sorted before each query, and the length of each match.
        """
        groups = []
        rows, length = np.arange(len(contexts)), start
        while len(rows):
            queries = contexts.last(rows, length)
            at = self.bisect(queries)
            matched = np.maximum(self.common(at - 1, queries), self.common(at, queries))
            done = (matched < length) | (length >= contexts.longest)
            groups.append((rows[done], queries[done], at[done], matched[done]))
            rows, length = rows[~done], min(4 * length, contexts.longest)
        return groups


class LastTokens:
    """The last tokens of N contexts, which are parts of B sequences.

    Args:
        ids: Tokens of each sequence; negative where they are unknown.
        valid: False at padding.
        row: Index of each context's sequence in ``ids``.
        position: Last position of each context in its sequence.
        first: First position of each context in its sequence; by default 0.
    """

    def __init__(
        self,
        ids: Int[np.ndarray, "B T"],
        valid: Bool[np.ndarray, "B T"],
        row: Int[np.ndarray, "N"],
        position: Int[np.ndarray, "N"],
        first: Int[np.ndarray, "N"] | None = None,
    ) -> None:
        self.ids = np.where(valid & (ids >= 0), ids + 1, BELOW).astype(np.int64)
        self.row, self.position = row, position
        self.first = np.zeros_like(position) if first is None else first

    @classmethod
    def of_text(
        cls,
        ids: Int[np.ndarray, "T"],
        position: Int[np.ndarray, "N"] | None = None,
        first: Int[np.ndarray, "N"] | None = None,
    ) -> LastTokens:
        """Contexts in the text ``ids``. Each begins at its entry of ``first`` and ends at its entry of ``position``.

        By default all contexts begin at 0, and one context ends at each position of the text.
        """
        position = np.arange(len(ids)) if position is None else position
        return cls(ids[None], np.ones((1, len(ids)), dtype=bool), np.zeros_like(position), position, first)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def longest(self) -> int:
        """Number of tokens of the longest context."""
        return int((self.position - self.first).max()) + 1 if len(self.position) else 0

    def last(self, which: Int[np.ndarray, "M"], length: int) -> Int[np.ndarray, "M L"]:
        """Queries with the last ``length`` tokens of the contexts with the indices ``which``.

        An unknown token, and all tokens before it, are ``BELOW``.
        """
        at = self.position[which][:, None] - np.arange(length)
        tokens = np.where(
            at >= self.first[which][:, None], self.ids[self.row[which][:, None], np.maximum(at, 0)], BELOW
        )
        unknown = np.maximum.accumulate(tokens == BELOW, axis=1)
        return np.where(unknown, BELOW, tokens)


assert BELOW < BETWEEN < ABOVE  # so no match extends over the mark between documents


# -- A scored text must not be in the corpus.

RUN = 32
"""Number of consecutive tokens that are searched together; a shorter text is searched as a whole."""

SHORTEST = 8
"""Minimum number of tokens of a text that is checked, because shorter texts occur in many corpora."""

STORED = 0.5
"""A text counts as stored if more than this share of its runs is in the corpus."""


def expect_held_out(
    index: NgramIndex, name: str, ids: Int[np.ndarray, "T"], instead: str = "take another text"
) -> None:
    """Checks that the text ``ids`` is not in the corpus of ``index``.

    The text is cut into runs of ``RUN`` tokens, and each run is searched in the corpus. A new text shares only shorter
    or few passages with the corpus, such as names, quotations and headings. Texts of fewer than ``SHORTEST`` tokens are
    not checked. In the error message, ``name`` is the name of the text, and ``instead`` the advice.

    Raises:
        ValueError: If more than half of the runs are in the corpus. The message names the position of the first one.
    """
    if len(ids) < SHORTEST:
        return
    length = min(RUN, len(ids) - 1)  # the index has no entry for the last token of a document
    ends = np.unique(np.append(np.arange(length, len(ids), length), len(ids) - 1))
    queries = np.asarray(ids)[ends[:, None] - 1 - np.arange(length)] + 1
    queries = np.where(queries > 0, queries, BELOW).astype(np.int64)
    at = index.bisect(queries)
    found = index.common(at, queries) == length
    if found.mean() <= STORED:
        return
    documents, offsets = index.next_offsets(at[found][:1])
    where = f"'{index.names[int(documents[0])]}' from token {int(offsets[0]) - length + 1:,} on"
    raise ValueError(
        f"{name}: must not be in the n-gram index that predicts it ({int(found.sum()):,} of {len(found):,} runs "
        f"of {length} tokens are, the first in {where}); {instead}"
    )
