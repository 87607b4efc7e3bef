"""Texts in which nothing is written."""

from __future__ import annotations

from collections.abc import Sequence


def is_blank(text: str) -> bool:
    """Whether there is nothing but white space."""
    return not text.strip()


def note_on_empty(empty: Sequence[bool], rule: str = "count as wrong") -> str | None:
    """How many texts are empty and what becomes of them; None where none is.

    >>> note_on_empty([False, True, False])
    'empty texts, which count as wrong: 1 of 3'
    """
    return f"empty texts, which {rule}: {sum(empty)} of {len(empty)}" if any(empty) else None
