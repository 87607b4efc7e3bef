"""An answer as it is written: its tokens, what each adds to the text, and where a stop ends it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from nextword.inference.scoring.token_facts import TokenFacts
from nextword.runtime.pretrained import token_bytes, token_label
from nextword.serving.http.answer_forms import NamedToken, ShownToken, json_number

_BEFORE = 8
"""Tokens of the prompt that decide how the answer begins: with a space, or in the middle of a character."""


class WrittenAnswer:
    """What has been written so far, behind the prompt where that is shown too.

    ``stops`` are texts that end the answer and are left out of it, ``index`` is its number among those to a request.

    Attributes:
        before: Tokens that are not shown: those of the prompt, or none.
        ids: Tokens that are shown.
        pieces: What each adds to the text; empty where a character is not whole yet.
        finished: Why it ended; None while it goes on.
        drafted: Drafted words that were accepted and refused; None: none were asked for, or it goes on.
    """

    def __init__(
        self, tokenizer: Any, prompt: Sequence[int], stops: Sequence[str] = (), index: int = 0, *, echoes: bool = False
    ) -> None:
        from tokenizers.decoders import DecodeStream

        self.index, self.prompt, self._tokenizer, self._stops = index, list(prompt), tokenizer, stops
        self._decoder = DecodeStream([], skip_special_tokens=True)
        read = [self._piece(token) for token in (prompt if echoes else prompt[-_BEFORE:])]
        self.before: list[int] = [] if echoes else self.prompt
        self.ids, self.pieces = (list(prompt), read) if echoes else ([], [])
        self._echoed, self._text = len(self.ids), ""
        self.finished: str | None = None
        self.drafted: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """All that is shown."""
        return "".join(self.pieces)

    @property
    def written(self) -> int:
        """Tokens behind the prompt."""
        return len(self.ids) - self._echoed

    def read(self, tokens: Sequence[int], ends: Sequence[int], *, is_all: bool) -> None:
        """All tokens behind the prompt so far, those that are known included; ``ends`` are tokens that end a text."""
        for token in tokens[self.written :]:
            self.add(token)
            if self.finished:
                return
        if is_all:
            self.end(ends)

    def add(self, token: int) -> None:
        """One more token; a stop ends the answer before it."""
        piece = self._piece(token)
        self.ids.append(token)
        self.pieces.append(piece)
        self._text += piece
        found = [at for stop in self._stops if (at := self._text.find(stop)) >= 0]
        if found:
            self.finished = "stop"
            self._cut(min(found))

    def end(self, ends: Sequence[int]) -> None:
        """No more tokens: either the last one ends a text, or there was no room for more."""
        self.finished = "stop" if self.written and self.ids[-1] in ends else "length"
        if self.written:
            self.pieces[-1] += self._unfinished_character()

    @property
    def certain(self) -> int:
        """How many tokens stay as they are; the text of those behind them may be the beginning of a stop."""
        if self.finished:
            return len(self.ids)
        held = max((_overlap(self._text, stop) for stop in self._stops), default=0)
        count = len(self.ids)
        while held > 0:
            count -= 1
            held -= len(self.pieces[count])
        return count

    def _piece(self, token: int) -> str:
        return self._decoder.step(self._tokenizer._tokenizer, token) or ""

    def _cut(self, end: int) -> None:
        """Leaves out the answer's text from this character on; its tokens stay, with nothing to add."""
        left = end
        for place in range(self._echoed, len(self.pieces)):
            self.pieces[place] = self.pieces[place][:left]
            left -= len(self.pieces[place])

    def _unfinished_character(self) -> str:
        read = self.prompt[-_BEFORE:]
        before, whole = (
            str(self._tokenizer.decode(ids, skip_special_tokens=True))
            for ids in (read, [*read, *self.ids[self._echoed :]])
        )
        return whole[len(before) + len(self._text) :]


def _overlap(text: str, stop: str) -> int:
    r"""Characters at the end of a text that a stop begins with.

    >>> _overlap("It ends.", ".\n"), _overlap("aab", "abc"), _overlap("It ends", ".\n")
    (1, 2, 0)
    """
    longest = min(len(text), len(stop) - 1)
    return next((count for count in range(longest, 0, -1) if text.endswith(stop[:count])), 0)


# -- The tokens of an answer as a client is told of them: their names, log-probabilities, rivals, sources and places.


class TokenNames:
    """Names tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._of = cache(self._name)

    def named(self, token: int, log_prob: float | None) -> NamedToken:
        """A token with its log-probability."""
        return NamedToken(*self._of(token), log_prob)

    def _name(self, token: int) -> tuple[str, bytes | None]:
        content = token_bytes(self._tokenizer, token)
        try:
            text = (content or b"").decode()
        except UnicodeDecodeError:  # a part of a character
            text = ""
        return text or token_label(self._tokenizer, token), content


def shown_tokens(
    names: TokenNames, ids: Sequence[int], pieces: Sequence[str], facts: TokenFacts, offset: int
) -> list[ShownToken]:
    """Tokens with their rivals; ``facts`` are about all of them, or all but the first of a text."""
    best, shown = facts.candidates, []
    offsets = accumulate(map(len, pieces), initial=offset)
    for token, at, row in zip(ids, offsets, _rows(ids, facts), strict=False):
        if row is None:
            shown.append(ShownToken(names.named(token, None), (), at))
            continue
        rivals = zip(best.ids[row].tolist(), best.log_prob[row].tolist(), strict=True)
        token_itself = names.named(token, float(facts.log_prob[row]))
        shown.append(ShownToken(token_itself, [names.named(*rival) for rival in rivals], at))
    return shown


def sources_of(ids: Sequence[int], pieces: Sequence[str], facts: TokenFacts, first: int) -> list[dict[str, Any]]:
    """What each token's probability came from; places count from the first token of the prompt.

    ``facts`` are about all tokens, or all but the first of a text; ``first`` is the place of the first.
    """
    made = []
    for number, (token, piece, row) in enumerate(zip(ids, pieces, _rows(ids, facts), strict=True)):
        told: dict[str, Any] = {"log_prob": None, "rank": None, "entropy": None, "shares": {}, "places": {}}
        made.append(
            {"id": token, "piece": piece, "place": first + number, **(told if row is None else _told(facts, row))}
        )
    return made


def _told(facts: TokenFacts, row: int) -> dict[str, Any]:
    places = {
        name: [
            [at, round(share, 4)]
            for at, share in zip(of.at[row].tolist(), of.share[row].tolist(), strict=True)
            if at >= 0
        ]
        for name, of in facts.places.items()
        if of.documents is None
    }
    return {
        "log_prob": json_number(float(facts.log_prob[row])),
        "rank": int(facts.rank[row]),
        "entropy": float(facts.entropy[row]),
        "shares": {name: round(float(share[row]), 4) for name, share in facts.shares.items()},
        "places": places,
    }


def _rows(ids: Sequence[int], facts: TokenFacts) -> list[int | None]:
    """The row of each token in the facts; nothing predicts the first token of a text, which has none."""
    count = len(facts.log_prob)
    return [*[None] * (len(ids) - count), *range(count)]
