r"""How many articles and words a text has (F2-Softmax, table 5).

>>> text_counts(" = Valkyria = \n\n A game . \n\n = = Story = = \n\n In a war . \n")
TextCounts(articles=1, words=15)
"""

from __future__ import annotations

import re
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
    titles = sum(1 for _ in _TITLE.finditer(text))
    return TextCounts(articles=titles or _pieces(text), words=sum(len(line.split()) for line in text.splitlines()))


def _pieces(text: str) -> int:
    paragraphs = [one for one in _PARAGRAPH_END.split(text.strip()) if one]
    return len(paragraphs) if len(paragraphs) > 1 else sum(bool(line.strip()) for line in text.splitlines())
