"""Small GGUF files, written with the package gguf as llama.cpp's converter lays them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from nextword.experiments.tasks.tokenizers import trained_tokenizer

TEXT = "The king said that it was so. It was not so, said the queen of 1066.\n" * 20
CHAT = "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}{% endfor %}"
TURN = "<turn>"
"""Ends a turn of a chat; not the token that ends a text."""
_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def tokenizer() -> Any:
    """A byte-level one with a token that ends turns."""
    made = trained_tokenizer(TEXT, 300, None)
    made.add_special_tokens({"additional_special_tokens": [TURN]})
    return made


def llama(words: Any) -> LlamaForCausalLM:
    """Two layers, two of four heads shared; its weights are large enough for scores that differ."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 64}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    ends = {"bos_token_id": words.eos_token_id, "eos_token_id": words.eos_token_id}
    config = LlamaConfig(vocab_size=len(words), **sizes, **heads, **ends, initializer_range=0.3)
    return LlamaForCausalLM(config).eval()


def write(
    path: Path, model: Any, words: Any, *, architecture: str = "llama", weights: bool = True, scaled: bool = False
) -> Path:
    """The file of a Llama and its tokenizer, float32.

    Args:
        path: Where.
        model: As ``llama`` makes it.
        words: Its tokenizer.
        architecture: What it says it is.
        weights: Whether the weights are in it; without them it is what llama.cpp tests tokenizers with.
        scaled: Whether it scales positions, as Llama 3.1's do.
    """
    writer, config = gguf.GGUFWriter(path, architecture), model.config
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, words)
    if weights:
        for name, weight in model.state_dict().items():
            writer.add_tensor(*_tensor(name, weight.numpy(), config))
    if scaled:
        writer.add_tensor("rope_freqs.weight", np.ones(config.head_dim // 2, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: Any, words: Any) -> None:
    model = json.loads(words.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    pieces = words.convert_ids_to_tokens(range(len(words)))
    writer.add_token_list(pieces)
    writer.add_token_types([3 if piece in words.all_special_tokens else 1 for piece in pieces])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(words.eos_token_id)
    writer.add_eos_token_id(words.eos_token_id)
    writer.add_eot_token_id(words.convert_tokens_to_ids(TURN))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT)


def _tensor(name: str, weight: Any, config: Any) -> tuple[str, Any]:
    """Name and weight as llama.cpp has them: rows of queries and keys are interleaved."""
    whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    part = name.removesuffix(".weight")
    if part in whole:
        return f"{whole[part]}.weight", weight
    _, _, layer, inner = part.split(".", 3)
    heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}
    if inner in heads:
        rows = weight.reshape(heads[inner], 2, -1, weight.shape[1])
        weight = np.ascontiguousarray(rows.swapaxes(1, 2).reshape(weight.shape))
    return f"blk.{layer}.{_NAMES[inner]}.weight", weight
