"""What intervals and tests draw anew: texts, or pieces of them, the same for every model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from nextword.scoring.example_encoding import Example
from nextword.scoring.measurement.scored_texts import ScoredText

FEWEST_TEXTS = 20
"""With fewer, an interval over texts says little, and they are cut into pieces."""

PIECE = 1024
"""UTF-8 bytes of a piece: some 200 words. Tokenizers cut differently, bytes are the same for all models."""


@dataclass(frozen=True)
class Units:
    """Texts or pieces.

    Attributes:
        name: What they are, for reports.
        begins: Number of the first unit of each text, and that of all units.
        piece: Bytes of a piece; None: each text is a unit.
    """

    name: str
    begins: Int[np.ndarray, "N+1"]
    piece: int | None

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Units:
        """Texts where there are enough of them, else pieces."""
        if len(examples) >= FEWEST_TEXTS:
            return cls("texts", np.arange(len(examples) + 1), None)
        pieces = [-(-len(example.text.encode("utf-8", "surrogatepass")) // PIECE) for example in examples]
        return cls(f"pieces of {PIECE:,} bytes", np.concatenate([[0], np.cumsum(pieces)]), PIECE)

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.begins[-1])

    def of_tokens(self, number: int, text: ScoredText) -> Int[np.ndarray, "T"]:
        """The unit of each token of a text: the piece in which it ends."""
        inside = np.zeros(len(text.ends), dtype=np.int64)
        if self.piece is not None:
            inside = np.maximum(text.ends - 1, 0) // self.piece
        found: Int[np.ndarray, "T"] = self.begins[number] + inside
        return found
