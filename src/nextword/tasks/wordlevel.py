"""A word-level tokenizer over a fixed text: one token per word or punctuation mark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

END, PAD, UNKNOWN = "<eos>", "<pad>", "<unk>"


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Tokenizer whose vocabulary is every word of ``texts``, in order of appearance, after the three special tokens.

    >>> tokenizer = word_tokenizer(["Paris is big.", "Rome is big."])
    >>> tokenizer("Rome is big.")["input_ids"], len(tokenizer)
    ([7, 4, 5, 6], 8)
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    splitter = pre_tokenizers.Whitespace()
    words = dict.fromkeys(word for text in texts for word, _ in splitter.pre_tokenize_str(text))
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys([END, PAD, UNKNOWN, *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = splitter
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=PAD, unk_token=UNKNOWN
    )
