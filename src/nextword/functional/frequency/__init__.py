"""Token counts of a corpus, and frequency classes of tokens made from them, for instance with MefMax."""

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
