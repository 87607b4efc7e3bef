"""Where two models differ on one text."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nextword.results.records.token_trace import TraceRecord

BEFORE, AFTER = 6, 4
"""Tokens of the text that a row shows in front of its own, and behind it."""

LARGEST = 10_000
"""From here on a factor is only called large."""

ALIKE = 0.005
"""Nats below which a token is no difference worth a row: half a percent of its probability."""


@dataclass(frozen=True)
class TokenDifference:
    """One token that the models gave different probabilities.

    Attributes:
        index: Place of the token in the text.
        nats: By how much the second model's log-probability is higher; infinite where one of them gave it none.
        before: The text in front of it.
        token: The token, as the vocabulary shows it.
        after: The text behind it.
    """

    index: int
    nats: float
    before: str
    token: str
    after: str

    @property
    def amount(self) -> str:
        """The nats, without the sign."""
        return f"{abs(self.nats):.2f}" if math.isfinite(self.nats) else "∞"

    @property
    def factor(self) -> str:
        """How many times the probability of the one is that of the other."""
        if math.isinf(self.nats):
            return "∞"
        if abs(self.nats) > math.log(LARGEST):
            return f"over {LARGEST:,}"
        factor = math.exp(abs(self.nats))
        return f"{factor:,.0f}" if factor >= 10 else f"{factor:.2f}"


@dataclass(frozen=True)
class ModelDifference:
    """Two models on the same tokens; positive numbers speak for the second.

    Attributes:
        total: Nats that the second model gains over the whole text, but for the tokens of ``never``.
        of: Nats that the first model needs for these tokens.
        gained: Nats and tokens on which the second is better.
        lost: Nats and tokens on which the first is.
        never: Tokens that only one of them thinks possible.
        rows: Tokens that differ, the largest difference first.
    """

    total: float
    of: float
    gained: tuple[float, int]
    lost: tuple[float, int]
    never: int
    rows: tuple[TokenDifference, ...]


def difference(one: TraceRecord, other: TraceRecord) -> ModelDifference:
    """Compares two models token by token.

    Raises:
        ValueError: They did not predict the same tokens.
    """
    expect_same_tokens(one, other)
    pairs = list(zip(one.tokens.log_prob, other.tokens.log_prob, strict=True))
    nats = [0.0 if a == b else b - a for a, b in pairs]  # where both are -inf, they agree
    finite = [each for each in nats if math.isfinite(each)]
    order = sorted((at for at in range(len(nats)) if abs(nats[at]) >= ALIKE), key=lambda at: -abs(nats[at]))
    gains, losses = [each for each in finite if each > 0], [-each for each in finite if each < 0]
    return ModelDifference(
        total=math.fsum(finite),
        of=-math.fsum(a for a, b in pairs if math.isfinite(a) and math.isfinite(b)),
        gained=(math.fsum(gains), len(gains)),
        lost=(math.fsum(losses), len(losses)),
        never=len(nats) - len(finite),
        rows=tuple(_row(one, one.first + at, nats[at]) for at in order),
    )


def expect_same_tokens(one: TraceRecord, other: TraceRecord) -> None:
    """Raises ValueError unless both traces are of the same tokens of the same text."""
    names = f"'{one.model.name}' and '{other.model.name}'"
    left, right = one.texts["text"].ids, other.texts["text"].ids
    if left != right:
        at = next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
        where = f"{len(left)} and {len(right)} tokens" if at is None else f"they part at token {at + 1}"
        raise ValueError(
            f"traces of {names}: must be of the same token ids ({where}); trace one text with two models that share a "
            "tokenizer"
        )
    pieces = zip(one.texts["text"].pieces, other.texts["text"].pieces, strict=True)
    for at, (here, there) in enumerate(pieces, start=1):
        if here != there:
            raise ValueError(
                f"traces of {names}: must be of the same text (token {at} is {here!r} and {there!r}); trace one text "
                "with two models that share a tokenizer"
            )
    if one.first != other.first:
        raise ValueError(
            f"traces of {names}: must begin at the same token ({one.first} and {other.first} given); trace both with "
            "the same prompt"
        )


def _row(trace: TraceRecord, index: int, nats: float) -> TokenDifference:
    text = trace.texts["text"]
    before = "".join(text.pieces[max(index - BEFORE, 0) : index])
    after = "".join(text.pieces[index + 1 : index + 1 + AFTER])
    token = text.pieces[index].lstrip(" ")  # the space in front of a word is shown, and not marked
    space = " " * (len(text.pieces[index]) - len(token)) if token else ""
    shown = token if token.strip() else trace.vocabulary[text.ids[index]]
    return TokenDifference(index, nats, before + space, shown, after)
