"""New tokens, and those that the model has read before."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from nextword.inference.scoring.breakdowns.breakdown import Breakdown
from nextword.inference.scoring.breakdowns.earlier_tokens import previous
from nextword.inference.scoring.measurement.scored_texts import ScoredText


class NewAndRepeated(Breakdown):
    """Whether the same token stood in what the model reads."""

    key = "repetition"
    title = "New and repeated tokens"
    meaning = (
        "Repeated: the same token stands in the source or auxiliary text, or else earlier in the text or its prompt, "
        "where the model sees it. Too far back: it stands earlier, but out of the model's window. New: it stands "
        "nowhere before."
    )
    groups = (
        "new", "repeated from the text before", "repeated from the source", "repeated from the auxiliary text",
        "repeated from too far back",
    )  # fmt: skip

    def group_of(self, text: ScoredText) -> Int[np.ndarray, "T"]:
        """The group of each token."""
        begin = len(text.prompt)
        last = previous(np.concatenate([text.prompt, text.target]))[begin:]
        found = np.select([last >= text.visible, last >= 0], [1, 4], 0)
        for name, group in (("auxiliary", 3), ("source", 2)):
            if name in text.copied_from:
                found[np.isin(text.target, text.copied_from[name])] = group
        return found
