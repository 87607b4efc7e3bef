"""Tokens by their place in a text."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from nextword.inference.scoring.breakdowns.breakdown import Breakdown
from nextword.inference.scoring.measurement.scored_texts import ScoredText

ENDS = (16, 32, 64, 128, 256, 512, 1024)


class TextPosition(Breakdown):
    """How far from the beginning of its text a token is: the first 16, then twice as many each time."""

    key = "position"
    title = "Place in the text"
    meaning = "Number of the token in its text, from 1; tokens of a prompt or source are not counted."
    groups = (
        *(f"{begin + 1:,} to {end:,}" for begin, end in zip((0, *ENDS[:-1]), ENDS, strict=True)),
        f"from {ENDS[-1] + 1:,} on",
    )

    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """The group of each token."""
        return np.searchsorted(np.array(ENDS), np.arange(1, len(text.target) + 1))
