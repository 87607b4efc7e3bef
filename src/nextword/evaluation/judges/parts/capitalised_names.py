"""Names told by their capital letters: what stands in for a recogniser where no trained one is at hand."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\b[A-Z]\.)\s+|\n")
_TITLES = frozenset({"mr", "mrs", "ms", "dr", "st"})
_POSSESSIVE = re.compile("['’]s$")
_WORD = re.compile(r"[^\W_](?:[\w.'’-]*[^\W_])?")


class CapitalisedNames:
    """Runs of capitalised words that are no stop words. A single word that begins a sentence counts as none.

    Examples:
        >>> texts = ["Rain fell. The Bank of England, in London, saw Mr. Smith's dog. Ann Lee did not."]
        >>> list(CapitalisedNames().entities(texts))
        [['Bank', 'England', 'London', 'Smith', 'Ann Lee']]
    """

    found_by = "runs of capitalised words"

    @property
    def stop_words(self) -> Collection[str]:
        """English ones, as spaCy has them."""
        from spacy.lang.en.stop_words import STOP_WORDS

        return STOP_WORDS

    def entities(self, texts: Sequence[str], batch_size: int = 64) -> Iterator[list[str]]:
        """The names of each text, as often as they are mentioned."""
        stop_words = self.stop_words
        for text in texts:
            yield [name for sentence in _SENTENCE_END.split(text) for name in _names(sentence, stop_words)]


def _names(sentence: str, stop_words: Collection[str]) -> list[str]:
    words = list(_WORD.finditer(sentence))
    runs: list[list[re.Match[str]]] = []
    for word in words:
        if not _may_be_a_name(word[0], stop_words):
            continue
        if runs and sentence[runs[-1][-1].end() : word.start()].isspace():
            runs[-1].append(word)
        else:
            runs.append([word])
    return [" ".join(_POSSESSIVE.sub("", word[0]) for word in run) for run in runs if run != words[:1]]


def _may_be_a_name(word: str, stop_words: Collection[str]) -> bool:
    abbreviation = len(word) > 1 and word.isupper()  # "US" is no stop word
    return word[0].isupper() and word.lower() not in _TITLES and (abbreviation or word.lower() not in stop_words)
