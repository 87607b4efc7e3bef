"""Words, as runs of letters and digits in any script."""

from __future__ import annotations

import re
import unicodedata

MARK = "\u0301"
"""Character that in a pattern for ``find`` matches any combining mark, such as a vowel sign of Hindi or an accent."""

_LETTERS = re.compile(rf"[^\W_]+(?:{MARK}+[^\W_]*)*")
_MARKUP = re.compile(r"<[^<>\s]*>")


def words(text: str) -> list[str]:
    """The words of a text: runs of letters, digits and combining marks in lower case. ``<unk>`` etc. are not words.

    >>> words("The <unk> of Mary's 2-year-old dog , Rex")
    ['the', 'of', 'mary', 's', '2', 'year', 'old', 'dog', 'rex']
    """
    return letters(_MARKUP.sub(" ", text).lower())


def letters(text: str) -> list[str]:
    """Runs of letters and digits, with the combining marks on them, without punctuation and underscores.

    >>> letters("snake_case, नमस्ते!")
    ['snake', 'case', 'नमस्ते']
    """
    return find(_LETTERS, text)


def find(pattern: re.Pattern[str], text: str) -> list[str]:
    r"""All matches of ``pattern``, a pattern without groups. ``MARK`` in it matches any combining mark.

    Python's ``\w`` does not include these marks, and ``re`` has no name for them.
    """
    shown = text if text.isascii() else text.translate(_MARKS)
    if shown == text:
        return pattern.findall(text)
    return [text[found.start() : found.end()] for found in pattern.finditer(shown)]


class _Marks(dict[int, int]):
    """A table for ``str.translate`` from every combining mark to ``MARK``. Each character is tested only once."""

    def __missing__(self, code: int) -> int:
        self[code] = ord(MARK) if unicodedata.category(chr(code)).startswith("M") else code
        return self[code]


_MARKS = _Marks()


# -- The parts of a text that are copied from its source, word by word.

_WORD = re.compile(r"[^\W_]+")


def copied_stretches(text: str, source: str, least: int = 3) -> list[tuple[int, int]]:
    """The longest runs of words in ``text`` of which any ``least`` consecutive ones are also consecutive in ``source``.

    Capital letters, and characters between words, are ignored.

    >>> text = "Officials say the cat sat on a mat."
    >>> [text[begin:end] for begin, end in copied_stretches(text, "A dog: the Cat sat, on the mat.")]
    ['the cat sat on']

    Returns:
        Begin and end (exclusive) of each run, in characters.
    """
    found = [(match[0].casefold(), match.start(), match.end()) for match in _WORD.finditer(text)]
    read = [match[0].casefold() for match in _WORD.finditer(source)]
    known = {tuple(read[begin : begin + least]) for begin in range(len(read) - least + 1)}
    runs: list[tuple[int, int]] = []  # indices of the first and the last word
    for first in range(len(found) - least + 1):
        if tuple(word for word, _, _ in found[first : first + least]) not in known:
            continue
        last = first + least - 1
        if runs and runs[-1][1] >= first:
            runs[-1] = runs[-1][0], last
        else:
            runs.append((first, last))
    return [(found[first][1], found[last][2]) for first, last in runs]
