"""An order of training rows in which those of one batch are alike, by BM25."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler

from nextword.runtime import optional_libraries as extras

NEIGHBOURS = 20
"""Of each row, those that may follow it."""


def alike_rows(rows: Sequence[Sequence[int]], batch_size: int, seed: int) -> list[int]:
    """All rows, each once, so that every ``batch_size`` of them are neighbours.

    Each row is followed by the most similar of its 20 nearest that is not taken yet, or, where all are, by one that is
    drawn. The chain is cut into batches, and these are shuffled; one that is not full comes last.

    Args:
        rows: Token ids.
        batch_size: Rows of a batch.
        seed: Draws, and shuffles the batches.

    Raises:
        ValueError: The package bm25s is missing.

    Examples:
        >>> alike_rows([[1, 2, 3], [7, 8, 9], [2, 3, 4], [8, 9, 7]], batch_size=2, seed=0)  # doctest: +SKIP
        [1, 3, 0, 2]
    """
    nearest = _nearest(rows)
    draw = random.Random(seed)
    rest = list(range(len(rows)))
    draw.shuffle(rest)
    taken: set[int] = set()
    chain: list[int] = []
    while len(chain) < len(rows):
        row = next((one for one in nearest[chain[-1]] if one not in taken), None) if chain else None
        while row is None or row in taken:
            row = rest.pop()
        chain.append(row)
        taken.add(row)
    batches = [chain[begin : begin + batch_size] for begin in range(0, len(chain), batch_size)]
    short = [batches.pop()] if len(batches[-1]) < batch_size else []
    draw.shuffle(batches)
    return [row for batch in [*batches, *short] for row in batch]


def _nearest(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Of each row the most similar others, the nearest first."""
    if extras.missing(["bm25s"]):
        raise ValueError(f"training.alike: needs the package bm25s, not installed here ({extras.install('bm25')})")
    import bm25s

    words = [[str(token) for token in row] for row in rows]
    index = bm25s.BM25()
    index.index(words, show_progress=False)
    found = index.retrieve(words, k=min(NEIGHBOURS + 1, len(rows)), show_progress=False).documents
    return [[int(one) for one in near if one != number] for number, near in enumerate(found)]


class AlikeRows(Sampler[int]):
    """The order of ``alike_rows``, the same in every epoch.

    Args:
        rows: Data with ``input_ids``.
        batch_size: Rows of a batch.
        seed: Draws, and shuffles the batches.
    """

    def __init__(self, rows: Sequence[dict[str, Sequence[int]]], batch_size: int, seed: int) -> None:
        self._order = alike_rows([rows[number]["input_ids"] for number in range(len(rows))], batch_size, seed)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)
