"""Texts as the functions of metrics take them: as they stand, or as token ids."""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Int

from nextword.evaluation.metrics.ngrams import TokenTexts
from nextword.functional.frequency.counts import TokenCounts
from nextword.runtime.corpora.words import MARK, find

# -- What the tokens of a text are: the unit in which n-grams and repetitions are counted.

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
    """Ids that are not text: padding, beginning and end of sequence."""

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

    def __init__(self, cut: Callable[[str], list[str]] | None = None) -> None:
        self._cut = cut or split
        self._numbers: dict[str, int] = {}

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """The numbers of the words of ``text``."""
        return _numbered(self._cut(text), self._numbers)

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
    """The token ids that the samples bring along; a text without ids is an error."""

    name = "token ids of the samples"

    def __init__(self, special: Iterable[int] = ()) -> None:
        self.special = frozenset(special)

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """Raises ValueError: there is no way from text to ids here."""
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


Text: TypeAlias = str | Sequence[int] | Int[np.ndarray, "T"]
"""One text: as it stands, or as its token ids."""
Texts: TypeAlias = Iterable[Text] | TokenTexts
"""Several, all of them as they stand or all of them as token ids."""

Tokenize: TypeAlias = Literal["words", "spaces", "characters"] | Callable[[str], Sequence[Any]]
"""How texts are cut into tokens: "words" (words and punctuation marks, as ``nextword evaluate`` counts them), "spaces"
(what spaces separate), "characters", or a function from a text to its tokens, such as ``tokenizer.tokenize``."""

_CUTS: dict[str, Callable[[str], Sequence[Any]]] = {"words": split, "spaces": str.split, "characters": list}


# -- Texts as the functions of metrics take them.


def token_texts(*groups: Texts, tokenize: Tokenize = "words", of: str = "texts") -> list[TokenTexts]:
    """Groups of texts as token ids; equal tokens have equal ids, in whichever group they stand.

    Token ids are taken as they are, and ``TokenTexts`` handed through. ``of`` is what texts are called in messages.

    Raises:
        ValueError: A single text in place of a list, a list without texts, texts beside token ids, or something else
            than either.

    >>> [group.tokens.tolist() for group in token_texts(["It is.", "is it"], ["It"])]
    [[0, 1, 2, 1, 3], [0]]
    >>> token_texts(["a b"], [[1, 2]])
    Traceback (most recent call last):
    ...
    ValueError: texts: some are texts and some are token ids; give all as texts, or all as ids
    """
    cut = _cut(tokenize)
    numbers: dict[Any, int] = {}
    kinds = set()
    found = []
    for group in groups:
        if isinstance(group, TokenTexts):
            kinds.add("ids")
            found.append(group)
            continue
        if isinstance(group, str):
            raise ValueError(f"{of}: must be a list of texts (one text given, {_short(group)}); write [text]")
        if not isinstance(group, Iterable):
            raise ValueError(f"{of}: must be a list of texts ({type(group).__name__} given)")
        texts = list(group)
        if not texts:
            raise ValueError(f"{of}: the list has no text in it")
        kinds |= {"text" if isinstance(text, str) else "ids" for text in texts}
        found.append(TokenTexts.of([_ids(text, cut, numbers, f"{of}, number {n}") for n, text in enumerate(texts, 1)]))
    if len(kinds) > 1:
        raise ValueError(f"{of}: some are texts and some are token ids; give all as texts, or all as ids")
    return found


def token_ids(text: Text, tokenize: Tokenize = "words") -> Int[np.ndarray, "T"]:
    """One text as token ids.

    Raises:
        ValueError: It is neither a text nor token ids.

    >>> token_ids("a b a").tolist(), token_ids([7, 7]).tolist()
    ([0, 1, 0], [7, 7])
    """
    return _ids(text, _cut(tokenize), {}, "text")


def expect_references(references: Iterable[Any], of: str) -> None:
    """Raises ValueError where a text's references are not a list of texts, which would be read letter by letter."""
    if isinstance(references, str) or any(isinstance(found, str) for found in references):
        raise ValueError(
            f"{of}: references are a list of texts for each text, such as [['one reference'], ['one', 'another']]; a "
            "text stands there without a list around it"
        )


def _cut(tokenize: Tokenize) -> Callable[[str], Sequence[Any]]:
    cut = _CUTS.get(tokenize) if isinstance(tokenize, str) else tokenize
    if not callable(cut):
        known = ", ".join(f"'{name}'" for name in _CUTS)
        raise ValueError(f"tokenize: must be {known} or a function from a text to its tokens ({tokenize!r} given)")
    return cut


def _ids(text: Any, cut: Callable[[str], Sequence[Any]], numbers: dict[Any, int], place: str) -> Int[np.ndarray, "T"]:
    if isinstance(text, str):
        return _numbered(cut(text), numbers)
    if isinstance(text, Iterable):
        given = np.asarray(text if hasattr(text, "__array__") else list(text))
        if given.ndim == 1 and (not len(given) or np.issubdtype(given.dtype, np.integer)):
            return given.astype(np.int64)
    raise ValueError(f"{place}: must be a text or a list of token ids, whole numbers ({_short(text)} given)")


def _numbered(tokens: Iterable[Any], numbers: dict[Any, int]) -> Int[np.ndarray, "T"]:
    """A number for each token, the next one for a new one."""
    return np.array([numbers.setdefault(token, len(numbers)) for token in tokens], dtype=np.int64)


def _short(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


# -- How often each token occurs in a text, counted here or read from a file.


@dataclass(frozen=True)
class CountedTokens:
    """Tokens and their counts; a token that is not among them was never counted."""

    ids: Int[np.ndarray, "K"]
    """Token ids, ascending."""
    counts: Int[np.ndarray, "K"]
    """How often each occurs."""
    source: str
    """Where they are from, for a report."""

    @classmethod
    def of(cls, counted: Mapping[int, int], source: str) -> CountedTokens:
        """From a mapping of ids to counts.

        >>> CountedTokens.of({7: 2, 3: 1}, "a text").ids.tolist()
        [3, 7]
        """
        ids = np.array(sorted(counted), dtype=np.int64)
        return cls(ids, np.array([counted[int(token)] for token in ids], dtype=np.int64), source)

    @classmethod
    def load(cls, path: str, unit: Unit, where: str) -> CountedTokens:
        """From what ``nextword count`` wrote, or a .npy file of one whole number for each token id; ``where`` names it.

        Raises:
            ValueError: There is no such file, it holds something else, or the counts are those of another tokenizer.
        """
        found = TokenCounts.load(path, where)
        unit.expect_counts_of_it(found, where)
        return cls(np.arange(len(found.counts)), found.counts, found.source)

    @classmethod
    def of_corpus(cls, path: str, unit: Unit, where: str) -> CountedTokens:
        """From a text file, UTF-8, cut line by line by the unit; ``where`` is the setting that names it.

        Raises:
            ValueError: There is no such file, no token in it, or the unit cannot cut text.
        """
        try:
            status = Path(path).stat()
            found = _of_corpus(Path(path), unit, status.st_size, status.st_mtime_ns)
        except (OSError, ValueError) as fault:
            raise ValueError(f"{where}: cannot count the tokens of '{path}': {fault}") from None
        if not len(found.ids):
            raise ValueError(f"{where}: '{path}' has no token")
        return found

    def places(self, tokens: Int[np.ndarray, "T"]) -> Int[np.ndarray, "T"]:
        """Where in ``ids`` each token is; the length of ``ids`` for one that was never counted."""
        at = np.searchsorted(self.ids, tokens)
        known = self.ids[np.minimum(at, len(self.ids) - 1)] == tokens
        return np.where(known, at, len(self.ids))


@functools.lru_cache(maxsize=1)
def _of_corpus(path: Path, unit: Unit, size: int, changed: int) -> CountedTokens:
    # Kept, so that a long corpus is read once for all systems of an evaluation; size and changed renew it.
    counted: Counter[int] = Counter()
    with path.open(encoding="utf-8") as file:
        for line in file:
            counted.update(unit.ids(line).tolist())
    return CountedTokens.of(counted, path.name)
