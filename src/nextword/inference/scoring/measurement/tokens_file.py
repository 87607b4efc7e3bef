"""What a model says of every token, as lines of JSON: one object a token."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jaxtyping import Int
from torch import Tensor

from nextword.inference.scoring.measurement.scored_texts import ScoredText, Stretch
from nextword.inference.scoring.measurement.token_answers import Question, token_ends
from nextword.inference.scoring.token_facts import TokenFacts, TopPlaces, joined_facts, token_facts

DIGITS = 6
"""Behind the point."""


@dataclass(frozen=True, eq=False)
class TextFacts:
    """What was said of the T tokens of a text.

    Attributes:
        facts: Of each token. Places count from 1; in "text" what stands before the text has 0 and less.
        texts: By component, which text its places are in: "text" (with its prompt), "source", or the documents of a
            "store".
    """

    facts: TokenFacts
    texts: dict[str, str]


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
    said = facts.facts
    for row, token in enumerate(text.target.tolist()):
        line: dict[str, Any] = {
            "model": model,
            "text": text.example.id,
            "position": row + 1,
            "id": token,
            "token": label(token),
            "log_prob": _number(said.log_prob[row]),
            "rank": int(said.rank[row]),
            "entropy": _number(said.entropy[row]),
            "shares": {name: _number(share[row]) for name, share in said.shares.items()},
            "groups": {key: names[row] for key, names in groups.items()},
        }
        if said.places:
            line["places"] = {
                name: list(_places(text, facts.texts[name], of, row, label)) for name, of in said.places.items()
            }
        yield json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _places(
    text: ScoredText, read: str, places: TopPlaces, row: int, label: Callable[[int], str]
) -> Iterator[dict[str, Any]]:
    for place, (position, share) in enumerate(zip(places.at[row].tolist(), places.share[row].tolist(), strict=True)):
        if share > 0:
            token = None if places.documents is not None else text.token_at(read, position)
            shown: dict[str, Any] = {} if token is None else {"token": label(token)}
            if places.documents is not None:
                shown = {"document": int(places.documents[row, place])}
            yield {"in": read, "position": position, **shown, "share": _number(share)}


def _number(value: float) -> float | None:
    """What JSON can write; None for the logarithm of 0."""
    return round(float(value), DIGITS) if math.isfinite(value) else None


def _ask(distribution: Any, ids: Int[Tensor, "N"], places: int) -> TextFacts:
    return TextFacts(token_facts(distribution, ids, places=places), distribution.places_in())


def _split(facts: TextFacts, parts: Sequence[Stretch]) -> list[TextFacts]:
    ends = token_ends(parts)
    rows = [slice(end - len(part.target), end) for end, part in zip(ends, parts, strict=True)]
    return [_of_part(facts, one, part) for one, part in zip(rows, parts, strict=True)]


def _of_part(facts: TextFacts, rows: slice, part: Stretch) -> TextFacts:
    """Some rows, with places counted from the beginning of the text and not of the window."""
    said = facts.facts[rows]
    moved = {name: of.moved(part.begin if facts.texts[name] == "text" else 1) for name, of in said.places.items()}
    return replace(facts, facts=replace(said, places=moved))


def _joined(parts: Sequence[TextFacts]) -> TextFacts:
    return replace(parts[0], facts=joined_facts([part.facts for part in parts]))
