"""What a model says of every token, as lines of JSON: one object a token."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from nextword.scoring.measurement.scored_texts import ScoredText, Stretch
from nextword.scoring.measurement.token_answers import Question, token_ends
from nextword.scoring.token_facts import TokenFacts, token_facts

DIGITS = 6
"""Behind the point."""


@dataclass(frozen=True, eq=False)
class TextPlaces:
    """The places that the probability of each token came from.

    Attributes:
        text: Which text they are in: "text" (with its prompt) or "source".
        at: Position of each in that text, from 1; what stands before the text has 0 and less.
        share: The part of the token's probability that came from each; 0 where there are fewer.
    """

    text: str
    at: Int[np.ndarray, "T P"]
    share: Float[np.ndarray, "T P"]


@dataclass(frozen=True, eq=False)
class TextFacts:
    """What was said of the T tokens of a text; as ``TokenFacts``."""

    log_prob: Float[np.ndarray, "T"]
    rank: Int[np.ndarray, "T"]
    entropy: Float[np.ndarray, "T"]
    shares: dict[str, Float[np.ndarray, "T"]]
    places: dict[str, TextPlaces]


def facts_question(places: int) -> Question[TextFacts]:
    """Log-probability, rank, entropy, shares, and so many places of each token."""
    return Question(ask=partial(_ask, places=places), split=_split, join=_joined)


def token_lines(
    model: str,
    text: ScoredText,
    facts: TextFacts,
    groups: Mapping[str, Sequence[str]],
    label: Callable[[int], str],
) -> Iterator[bytes]:
    """The lines of one text.

    Args:
        model: Its name.
        text: What was scored.
        facts: What the model said.
        groups: By breakdown, the group of each token.
        label: How a token is shown.
    """
    for row, token in enumerate(text.target.tolist()):
        line: dict[str, Any] = {
            "model": model,
            "text": text.example.id,
            "position": row + 1,
            "id": token,
            "token": label(token),
            "log_prob": _number(facts.log_prob[row]),
            "rank": int(facts.rank[row]),
            "entropy": _number(facts.entropy[row]),
            "shares": {name: _number(share[row]) for name, share in facts.shares.items()},
            "groups": {key: names[row] for key, names in groups.items()},
        }
        if facts.places:
            line["places"] = {name: list(_places(text, one, row, label)) for name, one in facts.places.items()}
        yield json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _places(text: ScoredText, places: TextPlaces, row: int, label: Callable[[int], str]) -> Iterator[dict[str, Any]]:
    for position, share in zip(places.at[row].tolist(), places.share[row].tolist(), strict=True):
        if share > 0:
            token = text.token_at(places.text, position)
            shown = {} if token is None else {"token": label(token)}
            yield {"in": places.text, "position": position, **shown, "share": _number(share)}


def _number(value: float) -> float | None:
    """What JSON can write; None for the logarithm of 0."""
    return round(float(value), DIGITS) if math.isfinite(value) else None


def _ask(distribution: Any, ids: Int[Tensor, "N"], places: int) -> TextFacts:
    said: TokenFacts = token_facts(distribution, ids, places=places)
    texts = distribution.places_in()
    found = {name: TextPlaces(texts[name], top.at, top.share) for name, top in said.places.items()}
    return TextFacts(said.log_prob, said.rank, said.entropy, said.shares, found)


def _split(facts: TextFacts, parts: Sequence[Stretch]) -> list[TextFacts]:
    ends = token_ends(parts)
    rows = [slice(end - len(part.target), end) for end, part in zip(ends, parts, strict=True)]
    return [_of_rows(facts, one, part.begin) for one, part in zip(rows, parts, strict=True)]


def _of_rows(facts: TextFacts, rows: slice, begin: int) -> TextFacts:
    """Some rows, with places counted from the beginning of the text and not of the window."""
    return TextFacts(
        log_prob=facts.log_prob[rows],
        rank=facts.rank[rows],
        entropy=facts.entropy[rows],
        shares={name: share[rows] for name, share in facts.shares.items()},
        places={
            name: TextPlaces(one.text, one.at[rows] + (begin if one.text == "text" else 1), one.share[rows])
            for name, one in facts.places.items()
        },
    )


def _joined(parts: Sequence[TextFacts]) -> TextFacts:
    first = parts[0]
    return TextFacts(
        log_prob=np.concatenate([part.log_prob for part in parts]),
        rank=np.concatenate([part.rank for part in parts]),
        entropy=np.concatenate([part.entropy for part in parts]),
        shares={name: np.concatenate([part.shares[name] for part in parts]) for name in first.shares},
        places={
            name: TextPlaces(
                one.text,
                np.concatenate([part.places[name].at for part in parts]),
                np.concatenate([part.places[name].share for part in parts]),
            )
            for name, one in first.places.items()
        },
    )
