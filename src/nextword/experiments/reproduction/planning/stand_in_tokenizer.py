"""A tokenizer of a given size that read no text: a model's configuration asks for its size and its marks only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nextword.experiments.tasks.parts.special_tokens import END, PAD, UNKNOWN, for_transformers
from nextword.runtime.corpora.gap_sentences import MASK

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def stand_in_tokenizer(vocabulary: int) -> PreTrainedTokenizerBase:
    """As many tokens as a tokenizer that is trained on a text may have.

    >>> len(stand_in_tokenizer(300))
    300
    """
    from tokenizers import Tokenizer, models

    marks = [END, PAD, MASK, UNKNOWN]
    words = [*marks, *(f"<{number}>" for number in range(vocabulary - len(marks)))]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=UNKNOWN))
    return for_transformers(tokenizer, UNKNOWN, MASK)
