"""Words as runs of letters and digits, in any script."""

from __future__ import annotations

import re
import unicodedata

MARK = "\u0301"
"""In a pattern for ``find``: any combining mark, such as the vowel signs of Hindi and Thai, or a separate accent."""

_LETTERS = re.compile(rf"[^\W_]+(?:{MARK}+[^\W_]*)*")
_MARKUP = re.compile(r"<[^<>\s]*>")


def words(text: str) -> list[str]:
    """The words of a text: runs of letters, digits and combining marks in lower case; ``<unk>`` and the like are none.

    >>> words("The <unk> of Mary's 2-year-old dog , Rex")
    ['the', 'of', 'mary', 's', '2', 'year', 'old', 'dog', 'rex']
    """
    return letters(_MARKUP.sub(" ", text).lower())


def letters(text: str) -> list[str]:
    """Runs of letters and digits, with the combining marks on them; no punctuation, no underscores.

    >>> letters("snake_case, नमस्ते!")
    ['snake', 'case', 'नमस्ते']
    """
    return find(_LETTERS, text)


def find(pattern: re.Pattern[str], text: str) -> list[str]:
    r"""What a pattern without groups finds, where ``MARK`` in it stands for any combining mark.

    Python's ``\w`` leaves these marks out, and ``re`` has no name for them.
    """
    shown = text if text.isascii() else text.translate(_MARKS)
    if shown == text:
        return pattern.findall(text)
    return [text[found.start() : found.end()] for found in pattern.finditer(shown)]


class _Marks(dict[int, int]):
    """A table for ``str.translate`` from every combining mark to one, found out once for each character."""

    def __missing__(self, code: int) -> int:
        self[code] = ord(MARK) if unicodedata.category(chr(code)).startswith("M") else code
        return self[code]


_MARKS = _Marks()
