"""The contract of who guesses the next words of a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from nextword.distribution import NextToken
from nextword.functional.entries import TextRead
from nextword.heads import head_spec
from nextword.settings.registry import Registry

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class Draft:
    """Words that may come next.

    Attributes:
        words: Their ids, at least one.
        evidence: What speaks for them; drafts of equal evidence are taken to be right equally often.
        agreed: How many words before them are the same where they were found.
        found: In which text, and at which of its places, the first of them stands; None: nowhere.
    """

    words: Sequence[int]
    evidence: Hashable
    agreed: int = 0
    found: tuple[TextRead, int] | None = None


@dataclass(frozen=True)
class KnownText:
    """What can be read of one row.

    Attributes:
        words: Ids of the decoder's text so far, without padding.
        source: Ids of what the head reads beside it, padding included; empty where there is none.
        instead: In which text, and at which of its places, the word stands that the last draft had in place of the last
            word, or would have had if it had gone on; None: it came from no place.
    """

    words: list[int]
    source: list[int] = field(default_factory=list)
    instead: tuple[TextRead, int] | None = None

    def of(self, text: TextRead) -> list[int]:
        """The ids of one of the two texts."""
        return self.words if text == "text" else self.source


MOST_AGREED = 8
"""Words before a place that are compared at most."""


def agreed_before(there: Sequence[int], place: int, here: Sequence[int]) -> int:
    """How many words up to a place are those at the end of a text, up to ``MOST_AGREED``.

    >>> agreed_before([5, 6, 7, 8], 2, [9, 6, 7])
    2
    """
    agreed = 0
    while agreed < min(MOST_AGREED, place + 1, len(here)) and there[place - agreed] == here[-1 - agreed]:
        agreed += 1
    return agreed


@dataclass(frozen=True)
class Decided:
    """How the last word of each text came about.

    Attributes:
        distribution: That of the last pass.
        positions: Which of its positions decided the word (R,).
        padding: Places of padding before each text.
    """

    distribution: NextToken
    positions: Int[Tensor, "R"]
    padding: list[int]

    def token_places(self, words: Sequence[int]) -> tuple[dict[str, Tensor], dict[str, TextRead]]:
        """By component, what part of each word's probability came from each place (R, S); and of which text they are.

        Args:
            words: The last word of each text.
        """
        ids = torch.tensor(list(words), device=self.positions.device)
        chosen = self.distribution[self.positions]
        return chosen.token_places(ids), chosen.places_in()


class Drafter(ABC):
    """Guesses the next words of texts. What it guesses decides how fast a text is written, never which."""

    reads_places: bool = False
    """Whether it asks the distribution, which then is computed for several questions."""

    @abstractmethod
    def expect_fit(self, model: NextWordModel) -> None:
        """Raises ValueError where a model gives it nothing to guess from."""

    @abstractmethod
    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """What may come next in each text; None where nothing is guessed.

        Args:
            texts: The texts, of one word at least.
            decided: How the last word of each came about.
            longest: Most words of a draft.
        """


drafters: Registry[type[Drafter]] = Registry("draft", Drafter)
"""All of them by name."""


# -- Drafts from the head itself: what follows the place that its last word was copied from.

_PLACES = 64
"""Places that are looked at for each component; partitions share a word's probability evenly among all its places."""
_SHARES = (0.05, 0.2, 0.5, 0.8)
"""Bounds between the kinds of evidence: what part of probability one was copied."""


@drafters.register("places")
class PlacesDrafter(Drafter):
    """Of the places that the last word may have been copied from, the one where most words before it agree.

    Among equals the place with the larger share of the probability is taken, then the earlier one. Where the last word
    stands nowhere else, the draft goes on behind the word in whose place it came, if a draft had one there.
    """

    reads_places = True

    def expect_fit(self, model: NextWordModel) -> None:
        """Raises ValueError where the head points at no places."""
        head = model.next_word_head
        if not (head.reads_words or head.reads_source):
            raise ValueError(
                f"draft: 'places' needs a head that copies (head '{head_spec(head.config)}' given); use draft='prompt'"
            )

    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """As in the contract; a text whose last word stands nowhere before is continued where it was copied from."""
        copied: list[list[tuple[tuple[Any, ...], Draft]]] = [[] for _ in texts]
        if any(stands_before(text) for text in texts):
            copied = self.candidates(texts, decided, longest)
        best = [max(found, key=lambda one: one[0])[1] if found else None for found in copied]
        return [_continued(text, longest) if draft is None else draft for text, draft in zip(texts, best, strict=True)]

    def candidates(
        self, texts: Sequence[KnownText], decided: Decided, longest: int
    ) -> list[list[tuple[tuple[Any, ...], Draft]]]:
        """What follows each place that the last word of a text may have been copied from, and its rank."""
        found: list[list[tuple[tuple[Any, ...], Draft]]] = [[] for _ in texts]
        shares, texts_of = decided.token_places([text.words[-1] for text in texts])
        for name, share in shares.items():
            share, of = torch.nan_to_num(share), texts_of[name]
            top, total = share.topk(min(_PLACES, share.shape[1])), share.sum(-1).tolist()
            for row, (values, places) in enumerate(zip(top.values.tolist(), top.indices.tolist(), strict=True)):
                for value, place in zip(values, places, strict=True):
                    at = place - (decided.padding[row] if of == "text" else 0)
                    words = texts[row].of(of)[at + 1 : at + 1 + longest] if at >= 0 else []
                    if value > 0 and words:
                        agreed = agreed_before(texts[row].of(of), at, texts[row].words)
                        draft = Draft(words, (name, _bucket(total[row])), agreed, (of, at + 1))
                        found[row].append(((agreed, value, -at), draft))
        return found


def stands_before(text: KnownText) -> bool:
    """Whether the last word of a text stands at an earlier place, or in what is read beside it."""
    last = text.words[-1]
    return last in text.source or text.words.index(last) < len(text.words) - 1


def _continued(text: KnownText, longest: int) -> Draft | None:
    """What follows the word in whose place the last word came; None where nothing does."""
    if text.instead is None:
        return None
    of, place = text.instead
    words = text.of(of)[place + 1 : place + 1 + longest]
    return Draft(words, "continued", 0, (of, place + 1)) if words else None


def _bucket(share: float) -> int:
    return sum(share >= bound for bound in _SHARES)


# -- Prompt lookup: what followed the last words where most of them stood before.


@drafters.register("prompt")
class PromptDrafter(Drafter):
    """Of the places where the last word stands, the one where most words before it agree; among equals the first.

    Works with every head. What an encoder-decoder model reads is looked through before its own text; transformers'
    lookup never sees it, and compares two words at most.
    """

    def expect_fit(self, model: NextWordModel) -> None:
        """Every model reads something."""

    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """As in the contract."""
        return [max(_found(text, longest), key=lambda draft: draft.agreed, default=None) for text in texts]


def _found(text: KnownText, longest: int) -> Iterator[Draft]:
    """What follows each place where the last word of a text stands."""
    names: tuple[TextRead, ...] = ("source", "text")
    for name in names:
        words, place = text.of(name), -1
        for _ in range(words.count(text.words[-1])):
            place = words.index(text.words[-1], place + 1)
            following = words[place + 1 : place + 1 + longest]
            if following:
                yield Draft(following, "prompt", agreed_before(words, place, text.words), (name, place + 1))
