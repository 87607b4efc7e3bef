"""Small n-gram indexes, made on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nextword.retrieval.ngram import Document, MatchWeights, NgramIndex, NgramModel, build_ngram_index

EVIDENCE, LIMIT, LENGTHS = (1, 2, 5), 9, (1, 2, 4)


def built(folder: Path, documents: Sequence[Sequence[int]], vocab_size: int, tokenizer: str = "f" * 64) -> NgramIndex:
    """An index of documents, called by their number."""
    named = [Document(f"document {number}", list(ids)) for number, ids in enumerate(documents)]
    build_ngram_index(named, folder, vocab_size=vocab_size, tokenizer=tokenizer, data=["made up"])
    return NgramIndex(folder)


def random_documents(seed: int, vocab_size: int) -> list[list[int]]:
    """Documents of few distinct tokens, some of them repeated or copied in part, some empty or of one token."""
    random = np.random.default_rng(seed)
    documents = [random.integers(0, min(vocab_size, 4), size).tolist() for size in (0, 1, 2, 7, 40, 25)]
    documents += [[vocab_size - 1] * 9, [0] * 5, documents[4][5:30], documents[4]]
    return [documents[place] for place in random.permutation(len(documents))]


def weights(seed: int = 0) -> MatchWeights:
    """Random ones, for three levels."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(EVIDENCE) + 1), len(LENGTHS))
    return MatchWeights(evidence=EVIDENCE, limit=LIMIT, lengths=LENGTHS, shares=shares.tolist())


def memory(folder: Path, vocab_size: int, seed: int = 0) -> NgramModel:
    """Random documents with random weights."""
    return NgramModel(built(folder, random_documents(seed, vocab_size), vocab_size), weights(seed))


def followed(documents: Sequence[Sequence[int]], match: Sequence[int]) -> list[tuple[int, int, int]]:
    """By scanning: document, offset and token of all that comes after a match."""
    size = len(match)
    return [
        (number, end, ids[end])
        for number, ids in enumerate(documents)
        for end in range(size, len(ids))
        if list(ids[end - size : end]) == list(match)
    ]


def scanned_levels(
    documents: Sequence[Sequence[int]], context: Sequence[int], evidence: Sequence[int], limit: int
) -> list[list[tuple[int, int, int]]]:
    """By scanning: for each level, what comes after the longest match that occurs so often; nothing beyond a limit."""
    matches = [followed(documents, context[-size:]) for size in range(len(context), 0, -1)]
    levels = [next((found for found in matches if len(found) >= least), []) for least in evidence]
    return [found if len(found) <= limit else [] for found in levels]


def scanned_mixture(
    documents: Sequence[Sequence[int]], context: Sequence[int], head: np.ndarray, shares: MatchWeights
) -> np.ndarray:
    """By scanning: the mixture of a head's probabilities with those of every level."""
    longest = next((size for size in range(len(context), 0, -1) if followed(documents, context[-size:])), 0)
    if not longest:
        return head
    row = shares.shares[max(place for place, least in enumerate(shares.lengths) if least <= longest)]
    mixed = row[0] * head
    for share, found in zip(row[1:], scanned_levels(documents, context, shares.evidence, shares.limit), strict=True):
        counted = np.bincount([token for *_, token in found], minlength=len(head)) / max(len(found), 1)
        mixed = mixed + share * (counted if found else head)
    return mixed
