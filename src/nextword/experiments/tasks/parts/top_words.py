"""The most probable tokens at one place, for the example predictions of a report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nextword.results.records import TopWord
from nextword.runtime.pretrained import token_label

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def top_words(distribution: Any, row: int, k: int, tokenizer: PreTrainedTokenizerBase) -> list[TopWord]:
    """The ``k`` first tokens, with the share of every source; those of probability 0 are left out.

    Args:
        distribution: Of N positions.
        row: Which of them.
        k: Tokens at most.
        tokenizer: Says what they are.
    """
    log_probs, ids = distribution.top_k(k)
    sources = {name: shares[row].tolist() for name, shares in distribution.sources(ids).items()}
    return [
        TopWord(
            word=token_label(tokenizer, token),
            probability=math.exp(log_prob),
            sources={name: shares[place] for name, shares in sources.items()},
        )
        for place, (log_prob, token) in enumerate(zip(log_probs[row].tolist(), ids[row].tolist(), strict=True))
        if log_prob > -math.inf
    ]
