"""A word-level tokenizer over a fixed text: one token per word or punctuation mark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nextword.experiments.tasks.parts.special_tokens import END, PAD, UNKNOWN, for_transformers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Tokenizer whose vocabulary is every word of ``texts``, in order of appearance, after the three special tokens.

    >>> tokenizer = word_tokenizer(["Paris is big.", "Rome is big."])
    >>> tokenizer("Rome is big.")["input_ids"], len(tokenizer)
    ([7, 4, 5, 6], 8)
    """
    from tokenizers import Tokenizer, models, pre_tokenizers

    splitter = pre_tokenizers.Whitespace()
    words = dict.fromkeys(word for text in texts for word, _ in splitter.pre_tokenize_str(text))
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys([END, PAD, UNKNOWN, *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = splitter
    return for_transformers(tokenizer, unknown=UNKNOWN)
