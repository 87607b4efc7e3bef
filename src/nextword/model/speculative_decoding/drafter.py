"""Who drafts the next tokens of a text: the contract, and those who do by the head's positions and by prompt lookup."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from nextword.distribution import NextToken
from nextword.functional.copy_scores import TextRead
from nextword.heads import head_spec
from nextword.settings.registry import Registry

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class Draft:
    """Tokens that may come next.

    Attributes:
        tokens: Their ids, at least one.
        evidence: How well they are supported; drafts of equal evidence are taken to be right equally often.
        agreed: How many tokens before them are the same where they were found.
        found: In which text, and at which of its positions, the first of them stands; None: nowhere.
    """

    tokens: Sequence[int]
    evidence: Hashable
    agreed: int = 0
    found: tuple[TextRead, int] | None = None

    words = property(attrgetter("tokens"))  # the old name


@dataclass(frozen=True)
class KnownText:
    """What can be read of one row.

    Attributes:
        tokens: Ids of the decoder's text so far, without padding.
        source: Ids of what the head reads beside it, padding included; empty where there is none.
        instead: In which text, and at which of its positions, the token stands that the last draft had in place of the
            last token, or would have had if it had continued; None: it came from no position.
    """

    tokens: list[int]
    source: list[int] = field(default_factory=list)
    instead: tuple[TextRead, int] | None = None

    words = property(attrgetter("tokens"))  # the old name

    def of(self, text: TextRead) -> list[int]:
        """The ids of one of the two texts."""
        return self.tokens if text == "text" else self.source


MOST_AGREED = 8
"""Tokens before a position that are compared at most."""


def agreed_before(there: Sequence[int], position: int, here: Sequence[int]) -> int:
    """How many tokens up to a position are those at the end of a text, up to ``MOST_AGREED``.

    >>> agreed_before([5, 6, 7, 8], 2, [9, 6, 7])
    2
    """
    agreed = 0
    while agreed < min(MOST_AGREED, position + 1, len(here)) and there[position - agreed] == here[-1 - agreed]:
        agreed += 1
    return agreed


@dataclass(frozen=True)
class Decided:
    """How the last token of each text came about.

    Attributes:
        distribution: Distribution of the last pass.
        positions: Which of its positions decided the token (R,).
        padding: Positions of padding before each text.
    """

    distribution: NextToken
    positions: Int[Tensor, "R"]
    padding: list[int]

    def token_positions(self, tokens: Sequence[int]) -> tuple[dict[str, Tensor], dict[str, TextRead]]:
        """By component, what part of the probability of each text's last token came from each position (R, S).

        Beside it, in which text these positions are.
        """
        ids = torch.tensor(list(tokens), device=self.positions.device)
        chosen = self.distribution[self.positions]
        return chosen.token_positions(ids), chosen.positions_in()


class Drafter(ABC):
    """Drafts the next tokens of texts. The draft decides how fast a text is generated, never which text."""

    reads_positions: bool = False
    """Whether it asks the distribution, which then is computed for several questions."""

    @abstractmethod
    def expect_fit(self, model: NextWordModel) -> None:
        """Raises ValueError where a model gives it nothing to draft from."""

    @abstractmethod
    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """What may come next in each text, at most ``longest`` tokens; None where nothing is drafted.

        Each text has one token at least, and ``decided`` says how its last one came about.
        """


drafters: Registry[type[Drafter]] = Registry("draft", Drafter)
"""All of them by name."""


# -- Drafts from the head itself: what follows the position that its last token was copied from.

_POSITIONS = 64
"""Looked at for each component; partitions share a token's probability evenly among all its positions."""
_SHARES = (0.05, 0.2, 0.5, 0.8)
"""Bounds between the kinds of evidence: what part of probability one was copied."""


@drafters.register("head", aliases=["places"])
class CopyHeadDrafter(Drafter):
    """Among the positions that the last token may have been copied from, the one where most tokens before it agree.

    Among equals the position with the larger share of the probability is taken, then the earlier one. Where the last
    token stands nowhere else, the draft continues behind the token in whose place it came, if a draft had one there.
    """

    reads_positions = True

    def expect_fit(self, model: NextWordModel) -> None:
        """Raises ValueError where the head points at no positions."""
        head = model.next_word_head
        if not (head.reads_words or head.reads_source):
            raise ValueError(
                f"draft: 'head' needs a head that copies (head '{head_spec(head.config)}' given); use draft='prompt'"
            )

    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """See ``Drafter.drafts``; a text with a new last token continues where that was copied from."""
        copied: list[list[tuple[tuple[Any, ...], Draft]]] = [[] for _ in texts]
        if any(map(_repeats_a_token, texts)):
            copied = self.candidates(texts, decided, longest)
        best = [max(found, key=lambda one: one[0])[1] if found else None for found in copied]
        return [_continued(text, longest) if draft is None else draft for text, draft in zip(texts, best, strict=True)]

    def candidates(
        self, texts: Sequence[KnownText], decided: Decided, longest: int
    ) -> list[list[tuple[tuple[Any, ...], Draft]]]:
        """What follows each position that the last token of a text may have been copied from, and its rank."""
        found: list[list[tuple[tuple[Any, ...], Draft]]] = [[] for _ in texts]
        shares, texts_of = decided.token_positions([text.tokens[-1] for text in texts])
        for name, share in shares.items():
            share, of = torch.nan_to_num(share), texts_of[name]
            top, total = share.topk(min(_POSITIONS, share.shape[1])), share.sum(-1).tolist()
            for row, (values, positions) in enumerate(zip(top.values.tolist(), top.indices.tolist(), strict=True)):
                kind, text = sum(total[row] >= bound for bound in _SHARES), texts[row].of(of)
                for value, position in zip(values, positions, strict=True):
                    at = position - (decided.padding[row] if of == "text" else 0)
                    tokens = text[at + 1 : at + 1 + longest] if at >= 0 else []
                    if value > 0 and tokens:
                        agreed = agreed_before(text, at, texts[row].tokens)
                        draft = Draft(tokens, (name, kind), agreed, (of, at + 1))
                        found[row].append(((agreed, value, -at), draft))
        return found


def _repeats_a_token(text: KnownText) -> bool:
    last = text.tokens[-1]
    return last in text.source or text.tokens.index(last) < len(text.tokens) - 1


def _continued(text: KnownText, longest: int) -> Draft | None:
    """What follows the token in whose place the last token came; None where nothing does."""
    if text.instead is None:
        return None
    of, position = text.instead
    tokens = text.of(of)[position + 1 : position + 1 + longest]
    return Draft(tokens, "continued", 0, (of, position + 1)) if tokens else None


# -- Prompt lookup: what followed the last tokens where most of them stood before.


@drafters.register("prompt")
class PromptDrafter(Drafter):
    """Among the positions of the last token, the one where most tokens before it agree; among equals the first.

    Works with every head. What an encoder-decoder model reads is looked through before its own text; transformers'
    lookup never sees it, and compares two tokens at most.
    """

    def expect_fit(self, model: NextWordModel) -> None:
        """Every model reads something."""

    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """See ``Drafter.drafts``."""
        return [max(_found(text, longest), key=lambda draft: draft.agreed, default=None) for text in texts]


def _found(text: KnownText, longest: int) -> Iterator[Draft]:
    """What follows each position where the last token of a text stands."""
    names: tuple[TextRead, ...] = ("source", "text")
    for name in names:
        tokens, position = text.of(name), -1
        for _ in range(tokens.count(text.tokens[-1])):
            position = tokens.index(text.tokens[-1], position + 1)
            following = tokens[position + 1 : position + 1 + longest]
            if following:
                yield Draft(following, "prompt", agreed_before(tokens, position, text.tokens), (name, position + 1))
