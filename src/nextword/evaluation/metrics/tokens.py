"""Inputs of metric functions, which are texts as strings or as token ids."""

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

# -- The tokens of a text, which are the units of n-grams and repetitions.

WORD = rf"\w+(?:{MARK}+\w*)*"
"""Pattern of a word: letters, digits and underscores, with their combining marks."""

_PIECE = re.compile(rf"{WORD}|[^\w\s]{MARK}*")


class Unit(ABC):
    """Base class of ways to split texts into token ids. All texts of an evaluation are split in the same way."""

    name: str
    """Name of the unit for the report, for example "words" or "tokens of gpt2"."""
    size: int | None = None
    """Vocabulary size V; None if it is unknown beforehand."""
    takes_ids: bool = True
    """Whether the samples' token ids, if given, are used as tokens of this unit."""
    special: frozenset[int] = frozenset()
    """Ids that are not text, such as padding, and start and end of sequence."""

    @abstractmethod
    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """The token ids of ``text``, without special tokens."""

    def expect_counts_of_it(self, counts: TokenCounts, where: str) -> None:
        """Raise ValueError, naming the setting ``where``, if ``counts`` are known to come from another unit."""
        return

    def order(self, ids: Int[np.ndarray, "K"]) -> Int[np.ndarray, "K"]:
        """Indices that sort the distinct ``ids``. The result does not depend on the order in which texts were read."""
        return np.argsort(ids, kind="stable")


class Words(Unit):
    """Splits texts into words and punctuation marks of any script, numbered by first appearance; case-sensitive.

    ``cut`` replaces the function ``split``, which splits a text into strings.

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
        """The ids of the words and punctuation marks of ``text``."""
        return _numbered(self._cut(text), self._numbers)

    def order(self, ids: Int[np.ndarray, "K"]) -> Int[np.ndarray, "K"]:
        """Indices that sort ``ids`` alphabetically by their words, because ids depend on the order of the texts."""
        words = dict(enumerate(self._numbers))
        places = sorted(range(len(ids)), key=lambda place: (words.get(int(ids[place]), ""), int(ids[place])))
        return np.array(places, dtype=np.int64)


MIXED = (
    "give token ids for all texts (token_ids, prompt_token_ids, reference_token_ids) or for none, or name their "
    "tokenizer"
)
"""Advice for the case that only some texts have token ids."""


class GivenIds(Unit):
    """Uses the token ids in the samples. A text without ids is an error."""

    name = "token ids of the samples"

    def __init__(self, special: Iterable[int] = ()) -> None:
        self.special = frozenset(special)

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """Raise ValueError, because this unit cannot split text."""
        raise ValueError(f"must have token ids for every text, as other texts have them: {MIXED}")


def split(text: str) -> list[str]:
    """Split into words and single punctuation marks. A combining mark belongs to the character before it.

    >>> split("Don't stop: 정말 좋았다!"), split("नमस्ते दुनिया")
    (['Don', "'", 't', 'stop', ':', '정말', '좋았다', '!'], ['नमस्ते', 'दुनिया'])
    """
    return find(_PIECE, text)


def as_ids(tokens: Sequence[int]) -> Int[np.ndarray, "T"]:
    """Token ids as an array."""
    return np.asarray(tokens, dtype=np.int64)


Text: TypeAlias = str | Sequence[int] | Int[np.ndarray, "T"]
"""One text, as a string or as token ids."""
Texts: TypeAlias = Iterable[Text] | TokenTexts
"""Several texts, all as strings or all as token ids."""

Tokenize: TypeAlias = Literal["words", "spaces", "characters"] | Callable[[str], Sequence[Any]]
"""Tokenization of texts: "words" (words and punctuation marks, as in ``nextword evaluate``), "spaces" (split at white
space), "characters", or a function from a text to its tokens, such as ``tokenizer.tokenize``."""

_CUTS: dict[str, Callable[[str], Sequence[Any]]] = {"words": split, "spaces": str.split, "characters": list}


# -- Conversion of texts for the functions of metrics.


def token_texts(*groups: Texts, tokenize: Tokenize = "words", of: str = "texts") -> list[TokenTexts]:
    """Convert each of the ``groups`` of texts to token ids. Equal tokens have equal ids in all groups.

    ``tokenize`` splits texts that are strings. Texts that are token ids keep their ids. ``of`` is the name of the texts
    in messages.

    Raises:
        ValueError: If a group is a single string, or is empty, or has an entry that is neither a string nor token ids,
            or if some texts are strings and some are token ids.

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
            raise ValueError(f"{of}: must have at least one text (an empty list given)")
        kinds |= {"text" if isinstance(text, str) else "ids" for text in texts}
        found.append(TokenTexts.of([_ids(text, cut, numbers, f"{of}, number {n}") for n, text in enumerate(texts, 1)]))
    if len(kinds) > 1:
        raise ValueError(f"{of}: some are texts and some are token ids; give all as texts, or all as ids")
    return found


def token_ids(text: Text, tokenize: Tokenize = "words") -> Int[np.ndarray, "T"]:
    """Convert one text to token ids: number its tokens by first appearance, or return its own ids.

    Raises:
        ValueError: If ``text`` is neither a string nor token ids.

    >>> token_ids("a b a").tolist(), token_ids([7, 7]).tolist()
    ([0, 1, 0], [7, 7])
    """
    return _ids(text, _cut(tokenize), {}, "text")


def expect_references(references: Iterable[Any], of: str) -> None:
    """Raise ValueError if a text's references are a string instead of a list. The message names the metric ``of``."""
    if isinstance(references, str) or any(isinstance(found, str) for found in references):
        raise ValueError(
            f"{of}: references must be a list of texts for each text (a string given), such as "
            "[['one reference'], ['one', 'another']]"
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
    """Numbers tokens in order of first appearance."""
    return np.array([numbers.setdefault(token, len(numbers)) for token in tokens], dtype=np.int64)


def _short(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


# -- The count of each token in a text, computed here or read from a file.


@dataclass(frozen=True)
class CountedTokens:
    """The counts of tokens. A token that is not in ``ids`` has count 0."""

    ids: Int[np.ndarray, "K"]
    """Token ids, ascending."""
    counts: Int[np.ndarray, "K"]
    """Count of each token."""
    source: str
    """Origin of the counts, for the report."""

    @classmethod
    def of(cls, counted: Mapping[int, int], source: str) -> CountedTokens:
        """Make counts from ``counted``, a mapping from token id to count. ``source`` is their origin.

        >>> CountedTokens.of({7: 2, 3: 1}, "a text").ids.tolist()
        [3, 7]
        """
        ids = np.array(sorted(counted), dtype=np.int64)
        return cls(ids, np.array([counted[int(token)] for token in ids], dtype=np.int64), source)

    @classmethod
    def load(cls, path: str, unit: Unit, where: str) -> CountedTokens:
        """Load the file ``path``, which is from ``nextword count``, or a .npy file with one count per token id.

        Raises:
            ValueError: If the file does not exist, has other content, or has counts of a tokenizer that is not that of
                ``unit``. The message names the setting ``where``.
        """
        found = TokenCounts.load(path, where)
        unit.expect_counts_of_it(found, where)
        return cls(np.arange(len(found.counts)), found.counts, found.source)

    @classmethod
    def of_corpus(cls, path: str, unit: Unit, where: str) -> CountedTokens:
        """Count the tokens of the UTF-8 text file ``path``, each line of which ``unit`` splits.

        Raises:
            ValueError: If the file does not exist or has no tokens, or ``unit`` cannot split text. The message names
                the setting ``where``.
        """
        try:
            status = Path(path).stat()
            found = _of_corpus(Path(path), unit, status.st_size, status.st_mtime_ns)
        except (OSError, ValueError) as fault:
            raise ValueError(f"{where}: cannot count the tokens of '{path}': {fault}") from None
        if not len(found.ids):
            raise ValueError(f"{where}: '{path}' must have at least one token (none found)")
        return found

    def places(self, tokens: Int[np.ndarray, "T"]) -> Int[np.ndarray, "T"]:
        """Index in ``ids`` of each of the ``tokens``, or ``len(ids)`` for a token that is not in ``ids``."""
        at = np.searchsorted(self.ids, tokens)
        known = self.ids[np.minimum(at, len(self.ids) - 1)] == tokens
        return np.where(known, at, len(self.ids))


@functools.lru_cache(maxsize=1)
def _of_corpus(path: Path, unit: Unit, size: int, changed: int) -> CountedTokens:
    # cached, so that a long corpus is read once for all systems; ``size`` and ``changed`` detect a changed file
    counted: Counter[int] = Counter()
    with path.open(encoding="utf-8") as file:
        for line in file:
            counted.update(unit.ids(line).tolist())
    return CountedTokens.of(counted, path.name)
