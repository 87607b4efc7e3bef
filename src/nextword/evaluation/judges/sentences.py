"""Splits a text into sentences, by punctuation and a list of English abbreviations."""

from __future__ import annotations

import re

_TITLES = (
    "adm capt cmdr col cpl dr fr ft gen gov hon lt maj messrs mr mrs ms mt pres prof rep reps rev sen sens sgt st supt"
)
_NAMES = "assn ave bros co corp dept inc jr ltd sr univ v vs"
_COUNTED = "apr art aug ch dec feb fig figs jan jul jun mar no nos nov oct op p pp sec sep sept vol"

_MARK = re.compile(r"(?<=[.!?…])([\"'”’)\]]*)\s+(?=[^\s\W_a-z]|[\"'“‘(\[])|(?<=[。！？])\s*|\n+")
_LAST_WORD = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*(?=\.$)")
_NEVER_LAST = frozenset(f"{_TITLES} {_NAMES}".split())
_BEFORE_NUMBERS = frozenset(_COUNTED.split())


def sentences_of(text: str) -> list[str]:
    """Split ``text`` into sentences, by punctuation and line breaks.

    A sentence ends at . ! ? … if white space and no lower-case Latin letter follow, at 。！？, and at a line break. A
    full stop does not end a sentence after an abbreviation ("Mr.", "Inc."), an initial ("John F. Kennedy") or letters
    with stops between them ("U.S."), or in a numbering ("No. 5", "Jan. 3"). If a sentence does end at such a stop, the
    next sentence is joined to it. For a metric that judges sentences as claims, two joined sentences are less harmful
    than a fragment.

    >>> sentences_of("Mr. Smith rained. She left at 3.5 p.m. or so! 정말 좋았다. 또 보고 싶다.")
    ['Mr. Smith rained.', 'She left at 3.5 p.m. or so!', '정말 좋았다.', '또 보고 싶다.']
    """
    sentences, start = [], 0
    for mark in _MARK.finditer(text):
        spaces = mark.group().isspace() and "\n" not in mark.group()  # after a closing quote or line break always split
        if spaces and _is_abbreviated(text[start : mark.start()], text[mark.end() : mark.end() + 1]):
            continue
        sentences.append(text[start : mark.start() + len(mark.group(1) or "")].strip())
        start = mark.end()
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]


def _is_abbreviated(before: str, following: str) -> bool:
    """Whether the full stop at the end of ``before`` belongs to its last word."""
    found = _LAST_WORD.search(before[-40:])
    if found is None:
        return False
    word = found.group().lower()
    initial = len(word) == 1 and found.group().isupper() and word.isascii() and word != "i"
    counted = word in _BEFORE_NUMBERS and following.isdigit()
    return initial or "." in word or word in _NEVER_LAST or counted
