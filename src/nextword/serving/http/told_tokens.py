"""The tokens of an answer as a client is told of them: their names, log-probabilities, rivals, sources and places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from nextword.inference.scoring.token_facts import TokenFacts
from nextword.runtime.pretrained import token_bytes, token_label
from nextword.serving.http.answer_forms import NamedToken, ShownToken, json_number


class TokenNames:
    """Names tokens.

    Args:
        tokenizer: Makes text of them.
    """

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
    """Tokens with their rivals.

    Args:
        names: Names them.
        ids: They.
        pieces: The text of each.
        facts: About all of them, or all but the first of a text.
        offset: Where the first one's text begins.
    """
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

    Args:
        ids: The tokens.
        pieces: The text of each.
        facts: About all of them, or all but the first of a text.
        first: Place of the first.
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
