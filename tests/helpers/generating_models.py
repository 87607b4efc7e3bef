"""Tiny random models on which a wrong memory shows.

An untouched random model repeats one token whatever it remembers. So weights are drawn wide, and the heads are made to
listen to their memory: a sharp cache, and random projections of the multiple inputs.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedModel,
    T5Config,
)

import nextword as nw
from tests.helpers.counted import counts_file

VOCABULARY = 40
PAD = 0
WINDOW = 6
"""Sliding window of Mistral and of every second layer of Gemma 2; prompts are longer."""
NEW = 8
"""Tokens to generate."""

MODES = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True},
    "beams": {"num_beams": 4},
    "best beams": {"num_beams": 4, "num_return_sequences": 3},
    "sampled beams": {"num_beams": 4, "do_sample": True},
    "samples": {"do_sample": True, "num_return_sequences": 3},
}
"""Ways to generate, as settings of ``generate``."""

HEADS: dict[str, Any] = {
    "softmax": "softmax",
    "cache": {"head": "cache", "temperature": 0.5, "weight": None},
    "long cache": {"head": "cache", "temperature": 0.5, "weight": None, "long": 4},
    "source cache": {"head": "cache", "temperature": 0.1, "weight": 0.8},
    "softmax+mi": "softmax+mi",
    "mos:2+mi": "mos:2+mi",
    "softmax+mi:2x3": "softmax+mi:2x3",
    "softmax+c": "softmax+c",
    "softmax+cpr:3,8+mi": "softmax+cpr:3,8+mi",
    "mos:2+p": {"head": "mos", "components": 2, "partition": {"pointer": True, "include_current": True}},
    "copynet": "copynet",
    "pg": "pg",
    "ps+mi": "ps+mi",
    "softmax+cepr:3+mi": "softmax+cepr:3+mi",
    "pg+mi": "pg+mi",
    "f2": {"head": "f2", "counts": counts_file(), "prior": None, "decoupled": False},
    "f2+mi": {"head": "f2", "counts": counts_file(), "decoupled": False, "mi": {}},
    "f2 decoupled": {"head": "f2", "counts": counts_file(), "prior": None},
    "sigsoftmax": "sigsoftmax",
    "softmax+r:3": "softmax+r:3",
}
DECODERS = {
    "gpt2": [
        "softmax", "cache", "softmax+mi", "mos:2+mi", "softmax+mi:2x3", "softmax+c", "softmax+cpr:3,8+mi", "mos:2+p",
        "copynet", "pg", "ps+mi", "f2", "long cache",
    ],
    "llama": ["cache", "softmax+mi", "pg", "f2+mi"],
    "mistral": ["cache", "softmax+mi:2x3", "softmax+cpr:3,8+mi", "long cache"],
    "gemma2": ["cache", "mos:2+mi"],
}  # fmt: skip
"""Decoder-only families with the heads that every run tries on them; the other pairs are slow tests."""
HYBRIDS = {
    "qwen3_next": ["cache", "softmax+cpr:3,8+mi"],
    "falcon_h1": ["cache", "pg"],
    "lfm2": ["cache", "softmax+mi:2x3"],
    "nemotron_h": ["cache", "mos:2+mi"],
    "zamba2": ["cache", "ps+mi"],
    "jamba": ["cache", "softmax+c"],
    "mamba": ["cache", "softmax+mi:2x3"],
    "mamba2": ["cache", "copynet"],
}
"""Families with linear attention or state-space layers, beside attention or alone, with heads to try on them."""
ENCODER_DECODERS = {
    "t5": ["softmax", "source cache", "softmax+mi", "softmax+cepr:3+mi", "pg+mi", "f2"],
    "bart": ["softmax", "source cache", "softmax+mi", "ps+mi"],
}

FORGETFUL = {"softmax", "f2"}
"""Heads that look at the current place alone."""

_ROTARY = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": PAD,
    "bos_token_id": 1,
    "eos_token_id": None,
}
_STATE_SPACE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "state_size": 8,
    "pad_token_id": PAD,
    "bos_token_id": 1,
    "eos_token_id": None,
}
_CONFIGS: dict[str, Any] = {
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=16,
        n_layer=3,
        n_head=2,
        n_positions=64,
        pad_token_id=PAD,
        bos_token_id=1,
        eos_token_id=None,
    ),
    "llama": lambda: LlamaConfig(**_ROTARY),
    "mistral": lambda: MistralConfig(**_ROTARY, sliding_window=WINDOW),
    "gemma2": lambda: Gemma2Config(**_ROTARY, sliding_window=WINDOW, query_pre_attn_scalar=8),
    "qwen3_next": lambda: hf.Qwen3NextConfig(
        **_ROTARY | {"num_hidden_layers": 4},
        layer_types=["linear_attention", "full_attention"] * 2,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=8,
        shared_expert_intermediate_size=8,
    ),
    "falcon_h1": lambda: hf.FalconH1Config(
        **_ROTARY, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8, mamba_chunk_size=32
    ),
    "lfm2": lambda: hf.Lfm2Config(**_ROTARY, layer_types=["conv", "full_attention", "conv"], block_ff_dim=24),
    "nemotron_h": lambda: hf.NemotronHConfig(
        **_ROTARY | {"num_hidden_layers": 4},
        layers_block_type=["mamba", "mlp", "mamba", "attention"],
        mamba_num_heads=4,
        mamba_head_dim=8,
        ssm_state_size=8,
        n_groups=1,
        chunk_size=32,
        time_step_min=1e-9,  # one token alone is read without this limit
    ),
    "zamba2": lambda: hf.Zamba2Config(
        **{name: size for name, size in _ROTARY.items() if name not in ("head_dim", "num_key_value_heads")}
        | {"num_hidden_layers": 4},
        layers_block_type=["mamba", "hybrid"] * 2,
        hybrid_layer_ids=[1, 3],
        num_mem_blocks=1,
        mamba_d_state=8,
        mamba_ngroups=1,
        n_mamba_heads=4,
        mamba_headdim=8,
        chunk_size=32,
        time_step_min=1e-9,
        adapter_rank=4,
    ),
    "jamba": lambda: hf.JambaConfig(
        **{name: size for name, size in _ROTARY.items() if name != "head_dim"} | {"num_hidden_layers": 4},
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        num_experts_per_tok=1,
        mamba_d_state=4,
        mamba_dt_rank=2,
        use_mamba_kernels=False,
    ),
    "recurrent_gemma": lambda: hf.RecurrentGemmaConfig(
        **_ROTARY | {"num_attention_heads": 2}, lru_width=16, attention_window_size=WINDOW
    ),
    "mamba": lambda: hf.MambaConfig(**_STATE_SPACE, time_step_rank=4),
    "mamba2": lambda: hf.Mamba2Config(**_STATE_SPACE, num_heads=4, head_dim=8, n_groups=1, chunk_size=32),
    "t5": lambda: T5Config(
        vocab_size=VOCABULARY,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=PAD,
        pad_token_id=PAD,
        eos_token_id=None,
    ),
    "bart": lambda: BartConfig(
        vocab_size=VOCABULARY,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=64,
        decoder_start_token_id=2,
        pad_token_id=PAD,
        bos_token_id=1,
        eos_token_id=None,
        forced_eos_token_id=None,
    ),
}

_DTYPES = {"gemma2": torch.float32, **dict.fromkeys(HYBRIDS, torch.float32)}
"""Gemma 2 masks with the least number of its own precision and then computes the softmax in single precision; the scans
of state-space layers and linear attention compute in single precision too."""


def backbone(family: str, seed: int = 0) -> PreTrainedModel:
    """A random model with wide matrices.

    In double precision where the family can: two ways to compute the same then differ by far less than the tolerance,
    so that no test passes or fails by rounding.
    """
    torch.manual_seed(seed)
    spread = 0.8 if family in _DTYPES else 1.5
    config = _CONFIGS[family]()
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = kind.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=spread / parameter.shape[-1] ** 0.5)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = PAD
    return model.eval().to(_DTYPES.get(family, torch.float64))


def pairs(families: dict[str, list[str]], *, remembering: bool = False) -> list[Any]:
    """Families x heads as parameters of a test.

    Args:
        families: Any of :data:`DECODERS` and :data:`ENCODER_DECODERS`.
        remembering: Leave out heads that remember nothing.
    """
    parameters = []
    for family, often in families.items():
        for head in DECODERS["gpt2"] if family in {**DECODERS, **HYBRIDS} else often:
            if not (remembering and head in FORGETFUL):
                marks = [] if head in often else [pytest.mark.slow]
                parameters.append(pytest.param(family, head, id=f"{family}-{head}", marks=marks))
    return parameters


CHIEF = [
    ("gpt2", "cache"), ("gpt2", "softmax+cpr:3,8+mi"), ("mistral", "cache"), ("t5", "source cache"),
    ("t5", "softmax+cepr:3+mi"),
]  # fmt: skip
"""Pairs of family and head that meet every value of a further axis: each kind of memory, a window, a source."""


def crossed(found: list[Any], values: dict[str, Any], *, often: int = 1) -> list[Any]:
    """Families x heads x values as parameters of a test.

    A head sees what happens to its memory, not why. So every pair meets ``often`` of the values, in turn, and those of
    :data:`CHIEF` meet all; the rest of the product is slow.

    Args:
        found: From :func:`pairs`.
        values: Name for the test run to value.
        often: How many values an ordinary pair meets.
    """
    made, place = [], 0
    for pair in found:
        for turn, (name, value) in enumerate(values.items()):
            fast = pair.values in CHIEF or (turn - place) % len(values) < often
            marks = pair.marks if fast or pair.marks else [pytest.mark.slow]
            made.append(pytest.param(*pair.values, value, id=f"{pair.id}-{name}", marks=marks))
        place += not pair.marks
    return made


@cache
def headed(family: str, head: str, seed: int = 0) -> nw.NextWordModel:
    """A random model with a head that listens to what it remembers; the same object for every test, not to change."""
    model = nw.attach(backbone(family, seed), HEADS[head])
    width = 1.5 / model.config.state_scale  # T5 gives its output layer small states
    torch.manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.next_word_head.named_parameters():
            # A score of local embeddings is a product of two projections, which would leave one word a position. Where
            # it is added to another score it must be smaller still for single precision to agree to the tolerance.
            small = 4 if family in _DTYPES and "partition" in name else 2
            spread = width if "local" not in name else width**0.5 / small
            nn.init.normal_(parameter, std=spread / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 0.3)
    return model


@cache
def assistant(family: str, head: str | None) -> Any:
    """The backbone of ``headed`` with a little noise: right now and then, and with a head of its own or none."""
    model = backbone(family)
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    if head is None:
        return model
    if head.startswith("f2"):  # decoupled by itself, which an assistant must not be
        return nw.attach(model, HEADS[head] | {"decoupled": True})
    if "cache" in head:  # left blunt, or it would copy what the sharp one copies and never be wrong
        return nw.attach(
            model, {key: value for key, value in HEADS[head].items() if key not in ("temperature", "weight")}
        )
    return nw.attach(model, head)


def prompt(rows: int = 2, length: int = 9, seed: int = 3) -> Tensor:
    """Token ids without padding or other special tokens; the words come from few, so that they repeat."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY // 2, (rows, length), generator=generator)


def left_padded(ids: Tensor, padding: list[int]) -> tuple[Tensor, Tensor]:
    """The ids with the first places of each row made padding, and their attention mask."""
    mask = torch.arange(ids.shape[1]) >= torch.tensor(padding)[:, None]
    return ids.masked_fill(~mask, PAD), mask.long()
