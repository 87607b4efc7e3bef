"""Sentences of a text, by its marks alone."""

from __future__ import annotations

import re

_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[^\s\W_a-z]|[\"'“‘(\[])|(?<=[。！？])\s*|\n+")


def sentences_of(text: str) -> list[str]:
    """Cut after . ! ? … before white space and anything but a small Latin letter, after 。！？, and at line breaks.

    It knows no abbreviations: "Mr. Smith" is cut. A spaCy pipeline cuts better and needs a model.

    >>> sentences_of("It rained. She left at 3.5 p.m. or so! 정말 좋았다. 또 보고 싶다.")
    ['It rained.', 'She left at 3.5 p.m. or so!', '정말 좋았다.', '또 보고 싶다.']
    """
    return [sentence for sentence in (part.strip() for part in _END.split(text)) if sentence]
