"""Rep: how many texts end in a loop."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, registry
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import Text, Tokenize, token_ids

LONGEST_PHRASE = 90
SHORTEST_LOOP = 3
"""Phrases of this length and longer need no more than a second copy."""
MOST_COPIES = 50
"""Shorter ones are a loop from one copy more than this."""


def copies_at_end(
    text: Text, longest_phrase: int = LONGEST_PHRASE, tokenize: Tokenize = "words"
) -> Int[np.ndarray, "P"]:
    """How often the last n tokens stand back-to-back at the end, for n = 1, 2, ...; 1 where they do not repeat.

    >>> copies_at_end([9, 1, 2, 1, 2, 1, 2, 1, 2], 5).tolist()
    [1, 4, 1, 2, 1]
    """
    # Read backwards, the tokens agree with themselves n further on over m tokens: that makes 1 + m // n copies.
    agreement = np.array(_agreement(token_ids(text, tokenize).tolist()[::-1], longest_phrase), dtype=np.int64)
    return 1 + agreement // np.arange(1, longest_phrase + 1)


def ends_in_loop(text: Text, longest_phrase: int = LONGEST_PHRASE, tokenize: Tokenize = "words") -> bool:
    """Whether the phrase with most copies at the end makes a loop; of phrases with equally many, the shortest is taken.

    A loop has more than one copy of 3 tokens or more, or more than 50 copies of fewer.

    Source: the script of The curious case of neural text degeneration (Holtzman et al., 2020), as F2-Softmax (Choi et
    al., 2020) uses it. Time is linear in the tokens, whatever the longest phrase.

    >>> ends_in_loop("we saw a cat, a cat, a cat,"), ends_in_loop("we saw a cat")
    (True, False)
    >>> ends_in_loop([9, 1, 2, 3, 1, 2, 3]), ends_in_loop([1, 2] * 4), ends_in_loop([7] * 50), ends_in_loop([7] * 51)
    (True, False, False, True)
    """
    # A phrase longer than the text stands in it once at most.
    tokens = token_ids(text, tokenize)
    copies = copies_at_end(tokens, min(longest_phrase, max(1, len(tokens))))
    best = int(np.argmax(copies))
    return bool(copies[best] > 1 and (best + 1 >= SHORTEST_LOOP or copies[best] > MOST_COPIES))


class RepConfig(MetricConfig):
    """Settings of Rep."""

    longest_phrase: int = Field(default=LONGEST_PHRASE, ge=1)
    """Longest phrase that is looked for at the end of a text, in tokens."""


@registry.register("rep")
class Rep(Metric):
    """Rep: the share of texts that end in a loop, the same phrase again and again. Example: ``rep``."""

    Config = RepConfig
    needs = ("tokens",)
    group, goal, decimals = metric.REPETITION, "human", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._loops: list[float] = []

    def add(self, sample: Sample) -> None:
        """Looks at the end of the written text; an empty one has none."""
        tokens = sample.tokens.tolist()
        self._loops.append(ends_in_loop(tokens, self.config.longest_phrase) if tokens else np.nan)

    def result(self) -> dict[str, Score]:
        """``rep``."""
        loops = np.array(self._loops, dtype=np.float64)
        measure = self.measure(
            "Rep",
            f"fraction of texts (phrases of up to {self.config.longest_phrase} tokens)",
            "Rep: texts that end in a loop: two copies of a phrase of three tokens or more, or over 50 of a "
            "shorter one.",
        )
        return {"rep": Score.mean(measure, loops)}


def _agreement(tokens: list[int], longest_shift: int) -> list[int]:
    """For every shift from 1: over how many of the first tokens the sequence agrees with itself shifted by it.

    The Z algorithm (Gusfield, 1997, chapter 1): inside a stretch that is known to agree with the beginning, what was
    found at the beginning holds again, so no token is compared twice.
    """
    found = [0] * (longest_shift + 1)
    left, right = 0, 0  # the stretch [left, right) agrees with the beginning
    for shift in range(1, min(longest_shift, len(tokens) - 1) + 1):
        agree = min(right - shift, found[shift - left]) if shift < right else 0
        while shift + agree < len(tokens) and tokens[agree] == tokens[shift + agree]:
            agree += 1
        found[shift] = agree
        if shift + agree > right:
            left, right = shift, shift + agree
    return found[1:]
