"""Model and tokenizer of the examples: the named model, or a tiny random GPT-2, which needs no network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from nextword.experiments.tasks.tokenizers import word_tokenizer


def model_and_tokenizer(name: str | None, texts: Sequence[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The pretrained model ``name``; without a name a random one whose words are those of ``texts``."""
    if name:
        return AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    torch.manual_seed(0)
    tokenizer = word_tokenizer(texts)
    sizes = {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 128, "vocab_size": len(tokenizer)}
    special = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": tokenizer.pad_token_id}
    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **special, **quiet)).eval(), tokenizer


def encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> torch.Tensor:
    """Token ids of texts of the same length, (B, T)."""
    return tokenizer(list(texts), return_tensors="pt").input_ids
