"""One tiny random model of every family, with weights so large that its distributions are far from uniform."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

VOCABULARY = 48
WINDOW = 4
"""Sliding attention looks at fewer places than the texts have."""
PAD, START, END = 0, 1, 2

_TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END}
_LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    **_TOKENS,
}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 128,
    "decoder_start_token_id": END,
    "forced_eos_token_id": END,
    **_TOKENS,
}
_T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": PAD,
    "vocab_size": VOCABULARY,
    "pad_token_id": PAD,
    "eos_token_id": END,
}


def gpt2() -> Any:
    sizes = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 128}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, **_TOKENS))


def opt(**changes: Any) -> Any:
    sizes = {"hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"word_embed_proj_dim": 32, "max_position_embeddings": 128}
    return hf.OPTForCausalLM(hf.OPTConfig(**(sizes | changes), **_TOKENS))


def opt_narrow() -> Any:
    """As OPT-350M: the output layer reads a projection that is narrower than the states."""
    return opt(word_embed_proj_dim=16, do_layer_norm_before=False)


def llama() -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**_LLAMA, tie_word_embeddings=False))


def mistral() -> Any:
    return hf.MistralForCausalLM(hf.MistralConfig(**_LLAMA, sliding_window=WINDOW))


def qwen2() -> Any:
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**{k: v for k, v in _LLAMA.items() if k != "head_dim"}))


def qwen3() -> Any:
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**_LLAMA, tie_word_embeddings=True))


def gemma2() -> Any:
    return hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**_LLAMA, sliding_window=WINDOW, final_logit_softcapping=4.0, query_pre_attn_scalar=8)
    )


def cohere() -> Any:
    sizes = {k: v for k, v in _LLAMA.items() if k != "head_dim"}
    return hf.CohereForCausalLM(hf.CohereConfig(**sizes, logit_scale=0.4))


def granite() -> Any:
    sizes = {k: v for k, v in _LLAMA.items() if k != "head_dim"}
    scales = {"logits_scaling": 3.0, "embedding_multiplier": 2.0, "residual_multiplier": 0.7}
    return hf.GraniteForCausalLM(hf.GraniteConfig(**sizes, **scales, tie_word_embeddings=True))


def t5() -> Any:
    return hf.T5ForConditionalGeneration(hf.T5Config(**_T5))


def t5_v1_1() -> Any:
    return hf.T5ForConditionalGeneration(hf.T5Config(**_T5, tie_word_embeddings=False, feed_forward_proj="gated-gelu"))


def bart() -> Any:
    return hf.BartForConditionalGeneration(hf.BartConfig(**_BART))


def marian() -> Any:
    return hf.MarianMTModel(hf.MarianConfig(**_BART, decoder_vocab_size=VOCABULARY))


NARROW = "opt_narrow"
"""Its last state is of another width than the states before it, so multiple inputs have nothing to concatenate."""

FAMILIES: dict[str, Callable[[], Any]] = {
    make.__name__: make
    for make in (
        gpt2,
        opt,
        opt_narrow,
        llama,
        mistral,
        qwen2,
        qwen3,
        gemma2,
        cohere,
        granite,
        t5,
        t5_v1_1,
        bart,
        marian,
    )
}


@cache
def _model(family: str) -> Any:
    with torch.random.fork_rng(devices=[]):  # a caller that has seeded goes on from its seed, in the first call too
        torch.manual_seed(0)
        model = FAMILIES[family]()
    generator = torch.Generator().manual_seed(1)
    # (sinusoidal positions are embeddings too, but no checkpoint has them: they are always the same)
    embeddings = {id(m.weight): type(m) for m in model.modules() if isinstance(m, nn.Embedding)}

    def noise(shape: torch.Size) -> Tensor:
        return torch.randn(shape, generator=generator)

    for parameter in model.parameters():
        if "Sinusoidal" in embeddings.get(id(parameter), nn.Embedding).__name__:
            continue
        if id(parameter) in embeddings:
            parameter.data = 0.8 * noise(parameter.shape)
        elif parameter.ndim == 1:
            parameter.data += 0.1 * noise(parameter.shape)
        else:
            parameter.data = 1.2 * parameter.shape[-1] ** -0.5 * noise(parameter.shape)
    bias = getattr(model, "final_logits_bias", None)
    if bias is not None:
        bias += noise(bias.shape)
    model.generation_config.max_length = None
    return model.eval()


def tiny(family: str, dtype: torch.dtype = torch.float32) -> Any:
    """A fresh copy of the family's tiny model, the same in every call."""
    return copy.deepcopy(_model(family)).to(dtype)


def is_encoder_decoder(family: str) -> bool:
    """Whether a family has an encoder."""
    return bool(_model(family).config.is_encoder_decoder)


def prompts(model: Any, seed: int = 3, length: int = 9) -> dict[str, Tensor]:
    """Three sequences of different lengths, as ``generate`` wants them: padded on the left for a decoder-only model."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 20, (3, length), generator=generator)
    mask = torch.ones_like(ids)
    columns = slice(-3, None) if model.config.is_encoder_decoder else slice(0, 3)
    ids[1, columns], mask[1, columns] = PAD, 0
    return {"input_ids": ids, "attention_mask": mask}


def inputs(model: Any, seed: int = 3, length: int = 9) -> dict[str, Tensor]:
    """Inputs of a forward pass."""
    found = prompts(model, seed, length)
    if model.config.is_encoder_decoder:
        generator = torch.Generator().manual_seed(seed + 1)
        found["decoder_input_ids"] = torch.randint(3, 20, (3, 7), generator=generator)
    return found


def labels(given: dict[str, Tensor]) -> Tensor:
    """Targets for :func:`inputs`, some of them masked."""
    if "decoder_input_ids" in given:
        found = given["decoder_input_ids"].roll(-1, 1)
        return found.index_fill(1, torch.tensor([0]), -100)
    return given["input_ids"].masked_fill(given["attention_mask"] == 0, -100).index_fill(1, torch.tensor([4]), -100)
