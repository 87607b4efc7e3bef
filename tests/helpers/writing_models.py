"""Tiny opened models that write something: random, with wide weights, in double precision, and with tokenizers."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerBase,
    T5Config,
    T5ForConditionalGeneration,
)

import nextword as nw
from nextword.experiments.tasks.tokenizers import trained_tokenizer
from nextword.inference.scoring.opened_model import OpenedModel

TEXT = "The king and the queen met the mayor. Once upon a time there was a little dragon, and 옛날 옛적에 a king. " * 40
POSITIONS = 48
LOUD_CACHE = {"head": "cache", "temperature": 0.1, "weight": 0.8}
"""A cache that gives now and then most of a token's probability."""


@cache
def tokenizer() -> PreTrainedTokenizerBase:
    return trained_tokenizer(TEXT, 300, None)


def _backbone(family: str) -> Any:
    tokens: Any = tokenizer()
    size, ids = len(tokens), {"pad_token_id": tokens.pad_token_id, "eos_token_id": tokens.eos_token_id}
    if family == "gpt2":
        sizes = {"n_positions": POSITIONS, "n_embd": 16, "n_layer": 2, "n_head": 2}
        return GPT2LMHeadModel(GPT2Config(vocab_size=size, bos_token_id=tokens.eos_token_id, **sizes, **ids))
    if family == "t5":
        widths = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
        return T5ForConditionalGeneration(
            T5Config(vocab_size=size, decoder_start_token_id=tokens.pad_token_id, **widths, **ids)
        )
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    widths = {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": POSITIONS}
    return BartForConditionalGeneration(
        BartConfig(vocab_size=size, decoder_start_token_id=2, forced_eos_token_id=None, **layers, **widths, **ids)
    )


def _wide(model: nn.Module, spread: float = 1.5) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=spread / parameter.shape[-1] ** 0.5)


def opened_model(family: str = "gpt2", head: Any = "softmax", conditioner: Any = None, seed: int = 0) -> OpenedModel:
    """A new model, so that a test may change it."""
    torch.manual_seed(seed)
    model = _backbone(family)
    _wide(model)
    if conditioner is None:
        attached = nw.attach(model.double().eval(), head)
        return OpenedModel("tiny", attached.eval(), tokenizer())
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 40}
    encoder = BertModel(BertConfig(vocab_size=len(tokenizer()), hidden_size=12, **sizes))
    _wide(encoder)
    attached = nw.attach(model.eval(), head, conditioner=conditioner, encoder=encoder.eval())
    _wide(attached.conditioner)
    copies = tokenizer() if attached.next_word_head.reads_source else None
    return OpenedModel("tiny", attached.double().eval(), tokenizer(), nw.AuxiliaryTokenizer(tokenizer(), copies))
