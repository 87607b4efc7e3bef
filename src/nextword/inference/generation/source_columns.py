"""Where the tokens of written texts came from, as columns of a samples file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nextword.inference.generation.samples_files import DIGITS
from nextword.inference.scoring.example_encoding import EncodedExample
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.target_likelihood import distribution_at_targets
from nextword.inference.scoring.token_facts import TokenFacts, token_facts


@dataclass(frozen=True)
class SourceColumns:
    """Of one text, with an entry for each of its tokens.

    Attributes:
        shares: By component, the part of the token's probability that came from it; they add up to 1.
        places: By component that points at places, ``[place, part]`` of the strongest, in decreasing order. A place is
            an index into the prompt's tokens (an encoder-decoder model has none) followed by the text's own; -1 is the
            start token. Of a component that looks at a source or an auxiliary text, it is an index into that text's
            tokens.
    """

    shares: dict[str, list[float]]
    places: dict[str, list[list[tuple[int, float]]]]

    def columns(self) -> dict[str, Any]:
        """As columns of a samples file; no ``places`` of a head that points at none."""
        return {"shares": self.shares, **({"places": self.places} if self.places else {})}


def source_columns(
    opened: OpenedModel, texts: Sequence[EncodedExample], inputs: Mapping[str, Any], places: int
) -> list[SourceColumns]:
    """Of each text, from one pass over all of them.

    Args:
        opened: The model that wrote them.
        texts: With what it wrote as their targets; one may be empty.
        inputs: Further inputs of the model.
        places: How many are named of each token.
    """
    distribution, ids = distribution_at_targets(opened.model, texts, inputs)
    facts = token_facts(distribution, ids, places=places)
    texts_read = distribution.places_in()
    columns, begin = [], 0
    for text in texts:
        rows = slice(begin, begin + len(text.target))
        begin = rows.stop
        before = 1 if opened.has_encoder else text.specials  # a decoder begins with a start token of its own
        columns.append(_of_text(facts, rows, {name: before * (of == "text") for name, of in texts_read.items()}))
    return columns


def _of_text(facts: TokenFacts, rows: slice, specials: Mapping[str, int]) -> SourceColumns:
    shares = {name: [round(one, DIGITS) for one in share[rows].tolist()] for name, share in facts.shares.items()}
    places = {}
    for name, strongest in facts.places.items():
        if strongest.documents is not None:  # in a store, and not in a text beside the sample
            continue
        tokens = zip(strongest.at[rows].tolist(), strongest.share[rows].tolist(), strict=True)
        places[name] = [
            [(at - specials[name], round(share, DIGITS)) for at, share in zip(*token, strict=True) if at >= 0]
            for token in tokens
        ]
    return SourceColumns(shares, places)
