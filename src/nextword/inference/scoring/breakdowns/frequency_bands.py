"""Frequent, medium, rare and very rare tokens."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from nextword.evaluation.metrics.frequency_groups import BOUNDARIES, NAMES, frequency_groups
from nextword.functional.frequency.counts import TokenCounts
from nextword.inference.scoring.breakdowns.breakdown import Breakdown
from nextword.inference.scoring.measurement.scored_texts import ScoredText


class FrequencyBands(Breakdown):
    """The groups of F2-Softmax (Choi et al., 2020), figure 2.

    Args:
        counts: How often each token id occurs somewhere.
        source: Where that is, for a report.
    """

    key = "frequency"
    title = "Frequent and rare tokens"
    groups = (*NAMES, "never counted")

    def __init__(self, counts: Int[np.ndarray, "V"], source: str) -> None:
        # bytes: it travels to other processes with every chunk of texts
        self._groups = np.where(counts > 0, frequency_groups(counts), len(NAMES)).astype(np.int8)
        ends = ", ".join(f"{100 * end:g}" for end in BOUNDARIES)
        self.meaning = (
            f"Tokens sorted by how often they occur in {source}, most frequent first, and cut where they make up "
            f"{ends} % of all: {', '.join(NAMES)}."
        )

    @classmethod
    def of_counts(cls, counts: TokenCounts) -> FrequencyBands:
        """Counted before, in another text."""
        return cls(counts.counts, counts.source)

    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """The group of each token; one with an id beyond all counted was never counted."""
        known = np.append(self._groups, np.int8(len(NAMES)))
        found: Int[np.ndarray, "T"] = known[np.minimum(text.target, len(self._groups))]
        return found
