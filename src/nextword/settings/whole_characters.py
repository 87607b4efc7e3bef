"""Text is whole characters: half of one, as a surrogate alone is, can be neither written nor cut into tokens."""

from __future__ import annotations


def expect_whole_characters(text: str, place: str) -> None:
    r"""Raises ValueError where a text has half a character.

    >>> expect_whole_characters("bad \ud83d end", "line 3")
    Traceback (most recent call last):
    ValueError: line 3: must be text of whole characters (half of one, \ud83d, given); correct it or leave it out
    """
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        half = text[fault.start].encode("unicode_escape").decode()
        raise ValueError(
            f"{place}: must be text of whole characters (half of one, {half}, given); correct it or leave it out"
        ) from None
