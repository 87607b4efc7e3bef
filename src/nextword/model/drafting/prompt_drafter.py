"""Prompt lookup: what followed the last words where most of them stood before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nextword.functional.stored_entries import TextRead
from nextword.model.drafting.drafter import Decided, Draft, Drafter, KnownText, agreed_before, drafters


@drafters.register("prompt")
class PromptDrafter(Drafter):
    """Of the places where the last word stands, the one where most words before it agree; among equals the first.

    Works with every head. What an encoder-decoder model reads is looked through before its own text; transformers'
    lookup never sees it, and compares two words at most.
    """

    def expect_fit(self, model: Any) -> None:
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
