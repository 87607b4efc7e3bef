"""What intervals and tests draw anew: texts, or pieces of them, the same for every model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.scored_texts import ScoredText

FEWEST_TEXTS = 20
"""With fewer, an interval over texts says little, and they are cut into pieces."""

PIECE = 1024
"""UTF-8 bytes of a piece: some 200 words. Tokenizers cut differently, bytes are the same for all models."""

MOST_UNITS = 16_384
"""With more, neighbours are drawn together: sums are kept for each unit, and their memory must not grow with the text.
An interval over so many units is as sharp as one over more."""


@dataclass(frozen=True)
class Units:
    """Texts, pieces of texts, or several of either that stand together.

    Attributes:
        name: What they are, for reports.
        count: How many there are.
        joined: Texts in a unit, where texts are units.
        piece: Bytes of a piece; None: texts are units.
        begins: Number of the first piece of each text, where pieces are units.
    """

    name: str
    count: int
    joined: int
    piece: int | None
    begins: tuple[int, ...]

    @classmethod
    def of(cls, given: GivenTexts) -> Units:
        """Texts where there are enough of them, else pieces."""
        if given.texts >= FEWEST_TEXTS:
            joined = -(-given.texts // MOST_UNITS)
            name = "texts" if joined == 1 else f"blocks of {joined:,} texts"
            return cls(name, -(-given.texts // joined), joined, None, ())
        piece = PIECE
        while sum(_pieces(given, piece)) > MOST_UNITS:
            piece *= 2
        begins = np.concatenate([[0], np.cumsum(_pieces(given, piece))])
        return cls(f"pieces of {piece:,} bytes", int(begins[-1]), 1, piece, tuple(begins.tolist()))

    def of_tokens(self, number: int, text: ScoredText) -> Int[np.ndarray, "T"]:
        """The unit of each token of a text: the piece in which it ends."""
        if self.piece is None:
            return np.full(len(text.ends), number // self.joined)
        inside: Int[np.ndarray, "T"] = np.maximum(text.ends - 1, 0) // self.piece
        return self.begins[number] + inside


def _pieces(given: GivenTexts, piece: int) -> list[int]:
    return [-(-size // piece) for size in given.sizes]
