"""A text token by token, and the component of the head that each token came from, as it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.generation.streamers import BaseStreamer

from nextword.distribution import NextToken

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Show = Callable[[str, int | None], None]
"""Is handed a piece of text, and which component of the head, from 0, gave most of its last token's probability; None
where nobody asked, or the head has one component."""


def strongest(shares: Sequence[float]) -> int:
    """Which share is the largest, the first of equal ones.

    >>> strongest([0.2, 0.5, 0.5])
    1
    """
    return max(range(len(shares)), key=lambda place: shares[place])


class TextPieces:
    """What each further token adds to a text; a character whose bytes come in several tokens comes with the last.

    Only the tokens since the last piece but one are decoded again, so a long text costs no more a token than a short
    one.

    Args:
        tokenizer: The model's.
        before: Tokens that the text goes on after; some tokenizers write the first word of a text without its space.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, before: Sequence[int] = ()) -> None:
        self._tokenizer: Any = tokenizer
        self._ids: list[int] = list(before)
        self._before, self._shown = 0, len(self._ids)

    def add(self, token: int) -> str:
        """The text that the token adds, empty while a character is not whole."""
        self._ids.append(token)
        return self._rest(False)

    def end(self) -> str:
        """What is left of a character that never became whole."""
        return self._rest(True)

    def _rest(self, is_last: bool) -> str:
        before = self._decoded(self._ids[self._before : self._shown])
        now = self._decoded(self._ids[self._before :])
        if len(now) <= len(before) or (now.endswith("\N{REPLACEMENT CHARACTER}") and not is_last):
            return ""
        self._before, self._shown = self._shown, len(self._ids)
        return now[len(before) :]

    def _decoded(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))


class SourceStreamer(BaseStreamer):
    """What ``generate`` hands each token of one row to.

    Args:
        tokenizer: The model's.
        ends: Tokens that end a text and are not shown.
        show: Is handed the pieces.
        source: Says from which component a token came that was chosen just now; None: nobody asks.
        before: Tokens that the text goes on after.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        ends: Sequence[int],
        show: Show,
        source: Callable[[int], int | None] | None = None,
        before: Sequence[int] = (),
    ) -> None:
        self._pieces, self._ends, self._show, self._source = TextPieces(tokenizer, before), ends, show, source
        self._latest: int | None = None

    def put(self, value: Tensor) -> None:
        """Shows the tokens."""
        for token in value.flatten().tolist():
            if token not in self._ends:
                self._latest = self._source(token) if self._source is not None else None
                self._show(self._pieces.add(token), self._latest)

    def end(self) -> None:
        """Shows what is left."""
        self._show(self._pieces.end(), self._latest)


class LatestDistribution:
    """The distribution that a head made last, from a hook on it that is there while a text is written.

    The question which component a token came from needs the product of the state with the vocabulary, which is a good
    part of a step. So the hook makes it once: ``generate`` and the question take their answers from the same numbers.

    Args:
        head: Of the model.

    Attributes:
        names: The components, once a token was asked about.
    """

    def __init__(self, head: Any) -> None:
        self.names: tuple[str, ...] = ()
        self._head = head
        self._latest: NextToken | None = None
        self._handle: Any = None

    def source(self, token: int) -> int | None:
        """Which component gave most of the token's probability; None of a head with one component."""
        if self._latest is None or self._handle is None:
            return None
        ids = torch.full((len(self._latest), 1), token, device=self._latest.device)
        shares = {name: float(share[-1]) for name, share in self._latest.sources(ids).items()}
        self.names = tuple(shares)
        if len(shares) == 1:  # there is nothing to tell, so no further token is asked about
            self._stop()
            return None
        return strongest(list(shares.values()))

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.remove()
        self._handle = self._latest = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within this block the head's distributions are seen."""

        def see(head: Any, inputs: Any, distribution: NextToken) -> NextToken:
            # Not before it is known that there are several components: of one, nothing is asked.
            self._latest = distribution.computed() if self.names else distribution
            return self._latest

        self._handle = self._head.register_forward_hook(see)
        try:
            yield
        finally:
            self._stop()
