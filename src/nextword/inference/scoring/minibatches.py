"""A list in slices that fit into memory, with the share that is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

Progress = Callable[[float], None]
"""Called with the share that is done, 0 to 1."""


def batches(rows: Sequence[T], size: int, progress: Progress | None = None) -> Iterator[Sequence[T]]:
    """``rows`` in slices of at most ``size``; ``progress`` is told after each of them.

    >>> shares = []
    >>> [list(part) for part in batches([1, 2, 3, 4], 3, shares.append)], shares
    ([[1, 2, 3], [4]], [0.75, 1.0])
    """
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        yield part
        if progress is not None:
            progress((begin + len(part)) / len(rows))


def progress_within(progress: Progress | None, begin: float, end: float) -> Progress:
    """Progress of a part, as that of the whole.

    >>> shares = []
    >>> progress_within(shares.append, 0.5, 1.0)(0.5)
    >>> shares
    [0.75]
    """

    def report(share: float) -> None:
        if progress is not None:
            progress(begin + share * (end - begin))

    return report
