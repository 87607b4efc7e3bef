"""A tokenizer for the tiny models of :mod:`tests.helpers.families`: a word ``w7`` is the token 7."""

from __future__ import annotations

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from tests.helpers.families import VOCABULARY


def word_tokenizer() -> PreTrainedTokenizerFast:
    """Three special tokens, then ``w3``, ``w4``, ..."""
    names = ["<pad>", "<s>", "</s>", *(f"w{number}" for number in range(3, VOCABULARY))]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(names)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = Whitespace()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
