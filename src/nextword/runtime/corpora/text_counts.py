r"""How many articles and words a text has (F2-Softmax, table 5).

>>> text_counts(" = Valkyria = \n\n A game . \n\n = = Story = = \n\n In a war . \n")
TextCounts(articles=1, words=15)
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

_TITLE = re.compile(r"(?:\A|^[ \t]*\n) ?= (?!= ).+ =[ \t]*(?=\n[ \t]*$)", re.MULTILINE)
"""An article's title in WikiText, on a line between empty ones; titles of sections have more than one "="."""
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")


class TextCounts(NamedTuple):
    """What a text consists of."""

    articles: int
    words: int


def text_counts(text: str) -> TextCounts:
    """Articles and words of a text.

    An article begins at a title of WikiText's form, " = Title = ". A text without one has as many articles as
    paragraphs, or, without blank lines, as lines that are not empty. Words are what stands between white space.
    """
    words = sum(len(line.split()) for line in text.splitlines())
    return TextCounts(articles=len(_titles(text)) or _pieces(text), words=words)


def articles(text: str) -> list[str]:
    r"""The articles of a text in WikiText's form; what stands before the first title belongs to the first.

    >>> [one.split()[1] for one in articles(" = Valkyria = \n\n A game . \n \n = Tempest = \n\n A play . \n")]
    ['Valkyria', 'Tempest']
    """
    titles = _titles(text)
    return [text[begin:end] for begin, end in pairwise([0, *titles[1:], len(text)])] if titles else []


def _titles(text: str) -> list[int]:
    """Where the titles begin."""
    return [found.start() for found in _TITLE.finditer(text)]


def _pieces(text: str) -> int:
    paragraphs = [one for one in _PARAGRAPH_END.split(text.strip()) if one]
    return len(paragraphs) if len(paragraphs) > 1 else sum(bool(line.strip()) for line in text.splitlines())
