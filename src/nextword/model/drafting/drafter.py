"""The contract of who guesses the next words of a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from nextword.distribution import NextToken
from nextword.functional.entries import TextRead
from nextword.settings.registry import Registry


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
    def expect_fit(self, model: Any) -> None:
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
