"""What continuous batching cannot do with a model, said before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.generation.continuous_batching import cache as paged_cache
from transformers.utils.generic import is_flash_attention_requested

from nextword.heads import head_spec
from nextword.model.forward.vocabulary_check import expect_known_ids

_WHOLE_TEXTS = "full_attention"
_OURS = "continuous batching"


def expect_batchable(model: Any, generation_config: Any, batching_config: Any) -> None:
    """Raises ValueError where requests could not get what ``generate`` gives to each alone.

    Args:
        model: A ``NextWordModel``.
        generation_config: That of the manager.
        batching_config: Settings of continuous batching.
    """
    if model.conditioner is not None:
        raise ValueError(f"{_OURS}: brings no auxiliary text to a conditioned model; use generate")
    if model.config.is_encoder_decoder:
        raise ValueError(f"{_OURS}: is for decoder-only models; use generate")
    if (beams := generation_config.num_beams or 1) > 1:
        raise ValueError(f"num_beams: must be 1 in {_OURS} ({beams} given); use generate")
    _expect_attention(model)
    if model.next_word_head.remembers:
        _expect_memory(model, batching_config, head_spec(model.next_word_head.config))


def _expect_attention(model: Any) -> None:
    """Raises ValueError where transformers cannot keep the requests of one row apart, or computes something else."""
    backbone, config = type(model.backbone), model.config.get_text_config()
    if not backbone._can_set_attn_implementation():
        raise ValueError(
            f"{_OURS}: {backbone.__name__} does not call transformers' attention interface, so requests in one row "
            "would read each other; use generate"
        )
    try:
        paged_cache.group_layers_by_attn_type(config)
    except ValueError as fault:
        raise ValueError(
            f"{_OURS}: {backbone.__name__} has layers without a paged cache; use generate ({fault})"
        ) from fault
    cap = getattr(config, "attn_logit_softcapping", None)
    if cap is not None and not is_flash_attention_requested(config):
        raise ValueError(
            f"attn_logit_softcapping: must be None in {_OURS} ({cap} given), because transformers leaves it out there; "
            "load the model with attn_implementation='flash_attention_2', or use generate"
        )


def _expect_memory(model: Any, batching_config: Any, head: str) -> None:
    """Raises ValueError where the cache of this model has no slots that a head's memory could follow."""
    if _WHOLE_TEXTS not in paged_cache.group_layers_by_attn_type(model.config.get_text_config()):
        raise ValueError(
            f"{_OURS}: head '{head}' remembers the whole text, and all layers of {type(model.backbone).__name__} keep "
            "a sliding window only; use generate"
        )
    if (space := batching_config.cpu_offload_space) != 0:
        raise ValueError(
            f"cpu_offload_space: must be 0 with head '{head}' ({space} given): what it remembers would stay behind. "
            "Requests that are put aside are computed again"
        )


def expect_eager(config: Any, head: str) -> None:
    """Raises ValueError where passes are to be compiled or recorded, whose sizes a head changes.

    Args:
        config: Settings of continuous batching.
        head: The head's spec, for the message.
    """
    graphs = config.use_cuda_graph
    settings = {
        "use_cuda_graph": any(graphs) if isinstance(graphs, tuple) else graphs,
        "varlen_compile_config": config.varlen_compile_config,
        "decode_compile_config": config.decode_compile_config,
        "default_compile_level": config.default_compile_level,
    }
    for name, given in settings.items():
        if given:
            raise ValueError(f"{name}: must be off with head '{head}', whose sizes change in every pass; leave it out")


def expect_request(model: Any, ids: Sequence[int]) -> None:
    """Raises ValueError where a request has no tokens, or one that is not in the vocabulary."""
    if not len(ids):
        raise ValueError("empty prompt: at least one token is needed; start with the model's bos token")
    expect_known_ids("input_ids", torch.as_tensor(ids), model.get_input_embeddings().weight.shape[0])
