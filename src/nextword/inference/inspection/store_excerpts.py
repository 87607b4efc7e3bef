"""What stands around tokens that were retrieved from a store, as a text that places can point into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nextword.inference.inspection.text_pieces import pieces_of_ids
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.prompt_encoding import start_id
from nextword.inference.scoring.token_facts import TokenFacts, TopPlaces
from nextword.results.records.token_trace import TracedText

AROUND = 24
"""Tokens before and after a retrieved one that are shown."""


def store_excerpts(opened: OpenedModel, facts: TokenFacts) -> tuple[TracedText | None, TokenFacts]:
    """Excerpts of the stores around all retrieved tokens, and the facts with places counted in them.

    Excerpts that touch are one. Each begins with the token that stands before a document, whose piece says which
    document it is and which of its tokens comes first; and of which store, where there are several.

    Args:
        opened: The model.
        facts: With places in documents of a store, or in none.

    Returns:
        The excerpts, None where nothing was retrieved; the facts.
    """
    stored = {name: of for name, of in facts.places.items() if of.documents is not None}
    read, start = opened.model.next_word_head.stored_texts(), start_id(opened.tokenizer)
    text, moved = TracedText(ids=[], pieces=[]), {}
    for name, of in stored.items():
        index: dict[tuple[int, int], int] = {}
        for document, first, last in _stretches(sorted(set(_places(of)))):
            ids, begin = read[name].stretch(document, first, last)
            where = f"[{name}: " if len(stored) > 1 else "["
            where += f"document {document}, from token {begin + 1}] "
            text.pieces.extend(["\n" + where if text.pieces else where, *pieces_of_ids(opened.tokenizer, ids)])
            index |= {(document, begin + at): len(text.ids) + 1 + at for at in range(len(ids))}
            text.ids.extend([start, *ids])
        moved[name] = _moved(of, index)
    return (text, replace(facts, places=facts.places | moved)) if text.ids else (None, facts)


def _places(of: TopPlaces) -> Iterator[tuple[int, int]]:
    assert of.documents is not None
    there = of.at >= 0
    return zip(of.documents[there].tolist(), of.at[there].tolist(), strict=True)


def _stretches(places: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Document, first and last token of each excerpt, from places in order."""
    if not places:
        return
    document, first, last = places[0][0], places[0][1] - AROUND, places[0][1] + AROUND
    for of, at in places[1:]:
        if of == document and at - AROUND <= last:
            last = at + AROUND
            continue
        yield document, first, last
        document, first, last = of, at - AROUND, at + AROUND
    yield document, first, last


def _moved(of: TopPlaces, index: dict[tuple[int, int], int]) -> TopPlaces:
    assert of.documents is not None
    pairs = zip(of.documents.ravel().tolist(), of.at.ravel().tolist(), strict=True)
    at = np.array([index.get(pair, -1) for pair in pairs], dtype=np.int64).reshape(of.at.shape)
    return TopPlaces(at, of.share)
