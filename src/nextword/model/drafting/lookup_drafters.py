"""Drafts from the head itself: what follows the place that its last word was copied from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from nextword.functional.entries import TextRead
from nextword.heads import head_spec
from nextword.model.drafting.drafter import Decided, Draft, Drafter, KnownText, agreed_before, drafters

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

    def expect_fit(self, model: Any) -> None:
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
