"""What the tokens of a text are: the unit in which n-grams and repetitions are counted."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

_WORD = re.compile(r"\w+|[^\w\s]")


class Unit(ABC):
    """Turns a text into token ids. One unit serves all systems of an evaluation, so that equal ids are equal tokens."""

    name: str
    """What is counted, for a report, for example "words" or "tokens of gpt2"."""
    size: int | None = None
    """V, where the vocabulary is known beforehand."""
    special: frozenset[int] = frozenset()
    """Ids that are no text: padding, beginning and end of sequence."""

    @abstractmethod
    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """The token ids of ``text``, without special tokens."""


class Words(Unit):
    """Words and punctuation marks, in any script, numbered as they appear; upper and lower case differ.

    >>> unit = Words()
    >>> unit.ids("It is, it is.").tolist()
    [0, 1, 2, 3, 1, 4]
    """

    name = "words"

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """The numbers of the words of ``text``."""
        numbers = self._numbers
        return np.array([numbers.setdefault(word, len(numbers)) for word in split(text)], dtype=np.int64)


class GivenIds(Unit):
    """The token ids that the samples bring along; a text without ids is an error."""

    name = "token ids of the samples"

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """There is no way from text to ids here.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "some texts have token ids and others have not: give all of them ids (token_ids, prompt_token_ids, "
            "reference_token_ids), or name the tokenizer"
        )


def split(text: str) -> list[str]:
    """Words and single punctuation marks.

    >>> split("Don't stop: 정말 좋았다!")
    ['Don', "'", 't', 'stop', ':', '정말', '좋았다', '!']
    """
    return _WORD.findall(text)


def as_ids(tokens: Sequence[int]) -> Int[np.ndarray, "T"]:
    """Token ids as an array."""
    return np.asarray(tokens, dtype=np.int64)
