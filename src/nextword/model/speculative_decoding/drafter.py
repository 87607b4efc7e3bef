"""Drafters of speculative decoding: the base class, one that continues what the head copied, and prompt lookup."""

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
    """Draft tokens of one text.

    Attributes:
        tokens: Token ids, at least one.
        evidence: How the draft was found, such as "prompt". Drafts with equal values share acceptance rates.
        agreed: For a copied draft, how many tokens before the copied ones equal the last tokens of the text.
        found: "text" or "source", and the position there from which the first draft token was copied; None: not copied.
    """

    tokens: Sequence[int]
    evidence: Hashable
    agreed: int = 0
    found: tuple[TextRead, int] | None = None

    words = property(attrgetter("tokens"))  # the old name


@dataclass(frozen=True)
class KnownText:
    """The decoder's text and the source of one sequence of the batch, as a drafter reads them.

    Attributes:
        tokens: Ids of the decoder's text so far, without padding.
        source: Ids of the source that the head reads, padding included; empty if there is no source.
        instead: If the last draft was copied: "text" or "source", and the position there after the accepted tokens. The
            model chose the last token of ``tokens`` in place of the token at this position. None: the last draft was
            not copied, or there was none.
    """

    tokens: list[int]
    source: list[int] = field(default_factory=list)
    instead: tuple[TextRead, int] | None = None

    words = property(attrgetter("tokens"))  # the old name

    def of(self, text: TextRead) -> list[int]:
        """Returns ``tokens`` if ``text`` is "text", otherwise ``source``."""
        return self.tokens if text == "text" else self.source


MOST_AGREED = 8
"""Maximum number of tokens that ``agreed_before`` compares."""


def agreed_before(there: Sequence[int], position: int, here: Sequence[int]) -> int:
    """Length of the longest common ending of ``there[: position + 1]`` and ``here``, at most ``MOST_AGREED``.

    >>> agreed_before([5, 6, 7, 8], 2, [9, 6, 7])
    2
    """
    agreed = 0
    while agreed < min(MOST_AGREED, position + 1, len(here)) and there[position - agreed] == here[-1 - agreed]:
        agreed += 1
    return agreed


@dataclass(frozen=True)
class Decided:
    """The distributions from which the last token of each text was chosen.

    Attributes:
        distribution: Distribution of the last pass, with one row per position of the pass.
        positions: For each text, the index of the row of ``distribution`` from which the text's last token was chosen.
        padding: Number of padding positions before each text.
    """

    distribution: NextToken
    positions: Int[Tensor, "R"]
    padding: list[int]

    def token_positions(self, tokens: Sequence[int]) -> tuple[dict[str, Tensor], dict[str, TextRead]]:
        """Returns how much each position adds to the probability of each text's token in ``tokens``.

        The keys of both results are the names of the head's components that copy, such as "cache". A value of the first
        result has the contributions of S positions for each of R texts. A value of the second names the kind of text
        that these positions are in.
        """
        ids = torch.tensor(list(tokens), device=self.positions.device)
        chosen = self.distribution[self.positions]
        return chosen.token_positions(ids), chosen.positions_in()


class Drafter(ABC):
    """Drafts the next tokens of texts. Drafts change the speed of generation, but not the texts."""

    reads_positions: bool = False
    """Whether the drafter calls methods of the distribution. The distribution then keeps its scores."""

    @abstractmethod
    def expect_fit(self, model: NextWordModel) -> None:
        """Raises ValueError if the drafter does not support ``model``."""

    @abstractmethod
    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """Returns for each of ``texts`` a draft of at most ``longest`` tokens, or None.

        Each text has at least one token. ``decided`` has the distributions from which the last tokens were chosen.
        """


drafters: Registry[type[Drafter]] = Registry("draft", Drafter)
"""All drafters by name."""


# -- Drafts from the head: the tokens after the position from which the head copied the last token.

_POSITIONS = 64
"""Number of positions checked per component. Partitions divide a token's probability evenly among its positions."""
_SHARES = (0.05, 0.2, 0.5, 0.8)
"""Bounds between kinds of evidence: the share of the token's probability that was copied."""


@drafters.register("head", aliases=["places"])
class CopyHeadDrafter(Drafter):
    """Drafts the tokens after a position from which the head may have copied the last token.

    The candidates are the positions that add to the last token's probability, at most 64 per component of the head. The
    drafter compares the tokens up to each candidate with the end of the text, and takes the candidate with the longest
    match (at most 8 tokens). A tie is broken by the larger share of the probability, then by the earlier position. If
    there is no candidate and the last draft was copied, the new draft continues after ``KnownText.instead``.
    """

    reads_positions = True

    def expect_fit(self, model: NextWordModel) -> None:
        """Raises ValueError if the head of ``model`` copies neither from the text nor from a source."""
        head = model.next_word_head
        if not (head.reads_words or head.reads_source):
            raise ValueError(
                f"draft: 'head' needs a head that copies (head '{head_spec(head.config)}' given); use draft='prompt'"
            )

    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """See ``Drafter.drafts``. The class docstring describes the choice of the position."""
        copied: list[list[tuple[tuple[Any, ...], Draft]]] = [[] for _ in texts]
        if any(map(_repeats_a_token, texts)):
            copied = self.candidates(texts, decided, longest)
        best = [max(found, key=lambda one: one[0])[1] if found else None for found in copied]
        return [_continued(text, longest) if draft is None else draft for text, draft in zip(texts, best, strict=True)]

    def candidates(
        self, texts: Sequence[KnownText], decided: Decided, longest: int
    ) -> list[list[tuple[tuple[Any, ...], Draft]]]:
        """For each text: pairs of sort key and draft, one per position that adds to the last token's probability."""
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
    """The draft after the draft token that the last token replaced; None if there is no such token."""
    if text.instead is None:
        return None
    of, position = text.instead
    tokens = text.of(of)[position + 1 : position + 1 + longest]
    return Draft(tokens, "continued", 0, (of, position + 1)) if tokens else None


# -- Prompt lookup: the tokens that followed an earlier occurrence of the last tokens.


@drafters.register("prompt")
class PromptDrafter(Drafter):
    """Drafts the tokens after an earlier occurrence of the last token, in the text or in the source of the head.

    The drafter compares the tokens up to each occurrence with the end of the text, and takes the occurrence with the
    longest match (at most 8 tokens). A tie is broken in favour of the source, then of the earlier position. This
    drafter works with every head. Prompt lookup in transformers does not search the source, and compares at most two
    tokens.
    """

    def expect_fit(self, model: NextWordModel) -> None:
        """Accepts every model."""

    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """See ``Drafter.drafts``."""
        return [max(_found(text, longest), key=lambda draft: draft.agreed, default=None) for text in texts]


def _found(text: KnownText, longest: int) -> Iterator[Draft]:
    """The draft after each earlier occurrence of the last token."""
    names: tuple[TextRead, ...] = ("source", "text")
    for name in names:
        tokens, position = text.of(name), -1
        for _ in range(tokens.count(text.tokens[-1])):
            position = tokens.index(text.tokens[-1], position + 1)
            following = tokens[position + 1 : position + 1 + longest]
            if following:
                yield Draft(following, "prompt", agreed_before(tokens, position, text.tokens), (name, position + 1))
