"""Longest common subsequences, with rows of the table as bits of an integer: a hundred tokens at a time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


class CommonSubsequence:
    """Longest common subsequences of one text with others, in O(T · T / 64) steps instead of O(T · T).

    Source: Hyyrö, *Bit-parallel LCS-length computation revisited*, 2004. Bit j of a row is 0 where the length grows
    from column j to column j + 1.

    >>> common = CommonSubsequence("the cat sat on the mat".split())
    >>> common.length("the dog sat on a mat".split())
    4
    >>> common.places("the dog sat on a mat".split())
    [0, 2, 3, 5]
    """

    def __init__(self, text: Sequence[Hashable]) -> None:
        self._text = text
        self._where: dict[Hashable, int] = {}
        for place, token in enumerate(text):
            self._where[token] = self._where.get(token, 0) | 1 << place
        self._ones = (1 << len(text)) - 1

    def length(self, other: Sequence[Hashable]) -> int:
        """How many tokens the longest has."""
        row = self._ones
        for token in other:
            row = self._next(row, token)
        return len(self._text) - row.bit_count()

    def places(self, other: Sequence[Hashable]) -> list[int]:
        """The places in ``other`` of one of the longest.

        Where there are several, the one that rouge-score finds: read back from the end, a token of ``text`` is given up
        before one of ``other`` only if more is kept that way.
        """
        rows = [self._ones]
        for token in other:
            rows.append(self._next(rows[-1], token))
        row, column, found = len(other), len(self._text), []
        while row and column:
            if other[row - 1] == self._text[column - 1]:
                row, column = row - 1, column - 1
                found.append(row)
            elif _length(rows[row], column - 1) > _length(rows[row - 1], column):
                column -= 1
            else:
                row -= 1
        return found[::-1]

    def _next(self, row: int, token: Hashable) -> int:
        matches = row & self._where.get(token, 0)
        return ((row + matches) | (row - matches)) & self._ones


def _length(row: int, columns: int) -> int:
    """Length up to ``columns`` in a row: the zeros among its lowest bits."""
    return columns - (row & ((1 << columns) - 1)).bit_count()
