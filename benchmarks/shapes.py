"""The measured models: random weights in published shapes, with heads.

All heads of a comparison share one backbone, so they differ in nothing else, and a dozen heads need the memory of one
model.
"""

from __future__ import annotations

from typing import Any

import torch
from texts import counts_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)

import nextword as nw

_NO_SPECIAL = {"bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}

GPT2: dict[str, dict[str, Any]] = {
    "gpt2-small": {},
    "three-layers": {"n_layer": 3, "attn_pdrop": 0.0},  # without dropout attention keeps no T x T, so 8,192 tokens fit
    "narrow": {"n_layer": 3, "n_embd": 256, "n_head": 4, "attn_pdrop": 0.0},
    "f2-paper": {"vocab_size": 30_000, "n_embd": 512, "n_layer": 12, "n_head": 8},
    "f2-lyrics": {"vocab_size": 40_000, "n_embd": 512, "n_layer": 12, "n_head": 8},
    "small": {"vocab_size": 30_000, "n_embd": 128, "n_layer": 3, "n_head": 4},
    "four-layers": {"vocab_size": 8000, "n_layer": 4, "n_embd": 256, "n_head": 4},
    "tiny": {"vocab_size": 8000, "n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 256},
    "toy": {"vocab_size": 300, "n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 64},
}
"""Settings of a GPT-2 by the name of its shape, where they are not those of GPT-2 small."""

T5: dict[str, dict[str, Any]] = {
    "t5-small": {"d_model": 512, "num_layers": 6, "num_heads": 8, "d_kv": 64, "d_ff": 2048, "vocab_size": 32_128},
    "toy-t5": {"d_model": 16, "num_layers": 2, "num_heads": 2, "d_kv": 8, "d_ff": 16, "vocab_size": 300},
}
"""Settings of a T5 by the name of its shape."""


def backbone(
    size: str, device: str = "cpu", dtype: str = "float32", *, positions: int = 0, vocabulary: int | None = None
) -> Any:
    """A model of transformers' own, with random weights that are always the same ones, or a saved one.

    Args:
        size: Name of a shape, or folder of a saved model.
        device: Where it is to lie.
        dtype: Of its weights.
        positions: Tokens that it must have room for.
        vocabulary: Words, where not as many as the shape has.

    Raises:
        ValueError: A saved model has no room for so many tokens.
    """
    torch.manual_seed(0)
    changes = {} if vocabulary is None else {"vocab_size": vocabulary}
    bare: Any
    if size in T5:
        bare = T5ForConditionalGeneration(T5Config(**(T5[size] | {"decoder_start_token_id": 0} | changes)))
    elif size in GPT2:
        shape = GPT2[size] | _NO_SPECIAL | changes
        shape["n_positions"] = max(shape.get("n_positions", 1024), positions)
        bare = GPT2LMHeadModel(GPT2Config(**shape))
    else:
        bare = _saved(size, positions)
    return bare.to(device=device, dtype=getattr(torch, dtype))


def _saved(folder: str, positions: int) -> Any:
    config = AutoConfig.from_pretrained(folder)
    room = getattr(config, "max_position_embeddings", None) or positions
    if room < positions:
        raise ValueError(f"{folder} has room for {room} tokens, {positions} are asked for: give fewer")
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    return kind.from_pretrained(folder)


def attached(bare: Any, method: str) -> Any:
    """A head on this very model.

    Args:
        bare: The model.
        method: Head spec, or head and objective with a slash between them; ``f2`` divides the vocabulary by the counts
            of :mod:`texts`, and its class embeddings are random, which matters to no time.
    """
    head, _, objective = method.partition("/")
    torch.manual_seed(1)
    if nw.heads.parse_head(head).head != "f2":
        return nw.attach(bare, head, objective or "mle")
    with counts_file(bare.config.vocab_size) as counts:
        return nw.attach(bare, {"head": head, "counts": counts, "start": "random"}, objective or "mle")
