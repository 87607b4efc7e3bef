"""A tokenizer of a few words, and tiny models that speak them."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from tests.helpers.families import END, FAMILIES, PAD, START

WORDS = ["the", "king", "sat", "on", "a", "horse", "and", "queen", "saw", "it", "ran", "far", "old", "dog", "é"]
SPECIAL = {"<pad>": PAD, "<s>": START, "</s>": END, "<unk>": 3}
TEXT = "the king sat on a horse and the queen saw the king sat on a horse and it ran far far far"


def word_tokenizer(words: list[str] | None = None) -> PreTrainedTokenizerFast:
    """Cuts at spaces; special tokens are those of ``families``."""
    vocabulary = SPECIAL | {word: len(SPECIAL) + place for place, word in enumerate(words or WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def word_model(seed: int = 0, **changes: Any) -> GPT2LMHeadModel:
    """A GPT-2 in double precision whose distributions are far from uniform."""
    torch.manual_seed(seed)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "initializer_range": 0.5}
    tokens = {"vocab_size": 48, "bos_token_id": START, "eos_token_id": END, "pad_token_id": PAD}
    return GPT2LMHeadModel(GPT2Config(**sizes | tokens | changes)).double().eval()


def family_model(name: str) -> Any:
    """A model of a family, in double precision."""
    torch.manual_seed(3)
    model = FAMILIES[name]().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3)
    return model
