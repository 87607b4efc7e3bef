"""What the tokens of a text are: the unit in which n-grams and repetitions are counted."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

from nextword.functional.frequency.counts import TokenCounts
from nextword.runtime.corpora.word_runs import MARK, find

WORD = rf"\w+(?:{MARK}+\w*)*"
"""A word: letters, digits and underscores, with the combining marks on them."""

_PIECE = re.compile(rf"{WORD}|[^\w\s]{MARK}*")


class Unit(ABC):
    """Turns a text into token ids. One unit serves all systems of an evaluation, so that equal ids are equal tokens."""

    name: str
    """What is counted, for a report, for example "words" or "tokens of gpt2"."""
    size: int | None = None
    """V, where the vocabulary is known beforehand."""
    takes_ids: bool = True
    """Whether ids that samples bring along are tokens of this unit."""
    special: frozenset[int] = frozenset()
    """Ids that are no text: padding, beginning and end of sequence."""

    @abstractmethod
    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """The token ids of ``text``, without special tokens."""

    def expect_counts_of_it(self, counts: TokenCounts, where: str) -> None:
        """Raises ValueError where the counts are known to be those of another unit."""
        return

    def order(self, ids: Int[np.ndarray, "K"]) -> Int[np.ndarray, "K"]:
        """Places of different ids in an order that does not depend on which text was read first: by id."""
        return np.argsort(ids, kind="stable")


class Words(Unit):
    """Words and punctuation marks, in any script, numbered as they appear; upper and lower case differ.

    >>> unit = Words()
    >>> unit.ids("It is, it is.").tolist()
    [0, 1, 2, 3, 1, 4]
    """

    name = "words"
    takes_ids = False

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """The numbers of the words of ``text``."""
        numbers = self._numbers
        return np.array([numbers.setdefault(word, len(numbers)) for word in split(text)], dtype=np.int64)

    def order(self, ids: Int[np.ndarray, "K"]) -> Int[np.ndarray, "K"]:
        """Places of the ids by alphabet, since words are numbered as they are read."""
        words = dict(enumerate(self._numbers))
        places = sorted(range(len(ids)), key=lambda place: (words.get(int(ids[place]), ""), int(ids[place])))
        return np.array(places, dtype=np.int64)


MIXED = (
    "give all texts ids (token_ids, prompt_token_ids, reference_token_ids) or none, or name the tokenizer that both "
    "come from"
)
"""What to do where some texts have ids and others have not."""


class GivenIds(Unit):
    """The token ids that the samples bring along; a text without ids is an error.

    Args:
        special: Ids that are no text.
    """

    name = "token ids of the samples"

    def __init__(self, special: Iterable[int] = ()) -> None:
        self.special = frozenset(special)

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """There is no way from text to ids here.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"has a text without token ids, others have them: {MIXED}")


def split(text: str) -> list[str]:
    """Words and single punctuation marks; a combining mark belongs to the character before it.

    >>> split("Don't stop: 정말 좋았다!"), split("नमस्ते दुनिया")
    (['Don', "'", 't', 'stop', ':', '정말', '좋았다', '!'], ['नमस्ते', 'दुनिया'])
    """
    return find(_PIECE, text)


def as_ids(tokens: Sequence[int]) -> Int[np.ndarray, "T"]:
    """Token ids as an array."""
    return np.asarray(tokens, dtype=np.int64)
