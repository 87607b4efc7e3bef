"""Which stretches of a text are copied from its source, word by word."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")


def copied_stretches(text: str, source: str, least: int = 3) -> list[tuple[int, int]]:
    """The longest runs of words of a text of which every ``least`` neighbours stand in the source, in this order.

    What stands between words, and whether they are in capitals, does not count.

    >>> text = "Officials say the cat sat on a mat."
    >>> [text[begin:end] for begin, end in copied_stretches(text, "A dog: the Cat sat, on the mat.")]
    ['the cat sat on']

    Args:
        text: The text.
        source: What it may be copied from.
        least: Words of the shortest run.

    Returns:
        The place of the first character of each run, and the place behind its last one.
    """
    found = [(match[0].casefold(), match.start(), match.end()) for match in _WORD.finditer(text)]
    read = [match[0].casefold() for match in _WORD.finditer(source)]
    known = {tuple(read[begin : begin + least]) for begin in range(len(read) - least + 1)}
    runs: list[tuple[int, int]] = []  # first and last word
    for first in range(len(found) - least + 1):
        if tuple(word for word, _, _ in found[first : first + least]) not in known:
            continue
        last = first + least - 1
        if runs and runs[-1][1] >= first:
            runs[-1] = runs[-1][0], last
        else:
            runs.append((first, last))
    return [(found[first][1], found[last][2]) for first, last in runs]
