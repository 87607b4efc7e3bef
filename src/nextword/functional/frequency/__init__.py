"""How frequent tokens are, and classes of tokens made from that.

In the order in which they act:

1. ``counting.py`` counts the tokens of a corpus, and goes on where it was stopped.
2. ``counts.py`` has the counts of a vocabulary with the tokenizer that they hold for, as a file.
3. ``classes.py`` divides the vocabulary into classes by frequency, with MefMax among the ways.
"""

from nextword.functional.frequency.classes import (
    DIVISIONS,
    FrequencyClasses,
    MefMaxCurve,
    divide,
    equal_frequency,
    equal_tokens,
    evenness,
    mefmax,
    mefmax_curve,
)
from nextword.functional.frequency.counting import count_tokens
from nextword.functional.frequency.counts import TokenCounts, tokenizer_fingerprint

__all__ = [
    "DIVISIONS",
    "FrequencyClasses",
    "MefMaxCurve",
    "TokenCounts",
    "count_tokens",
    "divide",
    "equal_frequency",
    "equal_tokens",
    "evenness",
    "mefmax",
    "mefmax_curve",
    "tokenizer_fingerprint",
]
