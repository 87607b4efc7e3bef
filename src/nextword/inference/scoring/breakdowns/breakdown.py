"""The contract of a breakdown: each token of a text is in one group."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Int

from nextword.inference.scoring.measurement.scored_texts import ScoredText

SPECIAL = "special tokens"
"""Group of tokens that stand for no text, such as the end token of an encoder-decoder model."""


class Breakdown(ABC):
    """Tells tokens apart, from the text alone: no model is asked.

    Attributes:
        key: Name in records, for example "frequency".
        title: Heading.
        meaning: Which token is in which group, for a reader.
        groups: Their names, in reading order.
    """

    key: str
    title: str
    meaning: str
    groups: tuple[str, ...]

    @abstractmethod
    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """The number of each token's group; what is said of special tokens is not read."""

    def codes(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """The same with special tokens in a group of their own, the last."""
        return np.where(text.is_special, len(self.groups), self.group_of(text))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all codes."""
        return (*self.groups, SPECIAL)
