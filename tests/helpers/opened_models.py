"""Small random models with tokenizers, ready to be asked about texts."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

import nextword as nw
from nextword.inference.scoring.opened_model import OpenedModel
from tests.helpers import text_tokenizers
from tests.helpers.conditioned_models import made_loud

POSITIONS = 96


def decoder(tokenizer: Any, head: Any = "softmax") -> OpenedModel:
    """A GPT-2 with a head whose parameters are no longer where they start."""
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS}
    torch.manual_seed(0)
    config = hf.GPT2Config(vocab_size=len(tokenizer), **sizes, bos_token_id=0, eos_token_id=0)
    return OpenedModel("tiny", _loud(nw.attach(hf.GPT2LMHeadModel(config), head)), tokenizer)


def encoder_decoder(family: str, head: Any = "softmax") -> OpenedModel:
    """A BART or a T5, with the tokenizer of its kind."""
    tokenizer: Any = getattr(text_tokenizers, family)()
    torch.manual_seed(0)
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    backbone: Any
    if family == "bart":
        sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
        config = hf.BartConfig(
            vocab_size=len(tokenizer), d_model=32, encoder_attention_heads=2, decoder_attention_heads=2, **sizes,
            decoder_start_token_id=tokenizer.eos_token_id, forced_eos_token_id=None, max_position_embeddings=POSITIONS,
            bos_token_id=tokenizer.pad_token_id, **ends,
        )  # fmt: skip
        backbone = hf.BartForConditionalGeneration(config)
    else:
        sizes = {"d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 4}
        config = hf.T5Config(vocab_size=len(tokenizer), **sizes, decoder_start_token_id=tokenizer.pad_token_id, **ends)
        backbone = hf.T5ForConditionalGeneration(config)
    return OpenedModel(family, _loud(nw.attach(backbone, head)), tokenizer)


def conditioned(head: Any, conditioner: str = "bergpt", max_length: int | None = None) -> OpenedModel:
    """A GPT-2 that follows an auxiliary text, with the tokenizers of both."""
    opened, encoder_tokens = decoder(text_tokenizers.byte_level()), text_tokenizers.pieces()
    torch.manual_seed(1)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "hidden_size": 12}
    encoder = hf.BertModel(hf.BertConfig(vocab_size=len(encoder_tokens), max_position_embeddings=POSITIONS, **sizes))
    model = nw.attach(opened.model.backbone, head, conditioner=conditioner, encoder=encoder)
    copies = opened.tokenizer if model.next_word_head.reads_source else None
    auxiliary = nw.AuxiliaryTokenizer(encoder_tokens, copies, max_length)
    return OpenedModel("conditioned", _loud(model), opened.tokenizer, auxiliary)


def _loud(model: Any) -> Any:
    made_loud(model.next_word_head, spread=0.5)
    made_loud(model.backbone, spread=1.0)
    return model.eval()
