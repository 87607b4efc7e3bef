"""What continuous batching cannot do with a model, said before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.generation.continuous_batching import cache as paged_cache

from nextword.heads import head_spec
from nextword.model.forward.vocabulary_check import expect_known_ids

_WHOLE_TEXTS = "full_attention"


def expect_batchable(model: Any, generation_config: Any, batching_config: Any) -> None:
    """Raises ValueError where requests could not get what ``generate`` gives to each alone.

    Args:
        model: A ``NextWordModel``.
        generation_config: That of the manager.
        batching_config: Settings of continuous batching.
    """
    if model.conditioner is not None:
        raise ValueError("continuous batching: brings no auxiliary text to a conditioned model; use generate")
    if model.config.is_encoder_decoder:
        raise ValueError("continuous batching: is for decoder-only models; use generate")
    if (beams := generation_config.num_beams or 1) > 1:
        raise ValueError(f"num_beams: must be 1 in continuous batching ({beams} given); use generate")
    if not model.next_word_head.remembers:
        return
    head = head_spec(model.next_word_head.config)
    if not hasattr(paged_cache, "CacheAllocator"):
        raise ValueError(
            f"continuous batching: head '{head}' remembers earlier places, which this version of transformers does not "
            "carry; install transformers 5.23 or later, or use generate"
        )
    if _WHOLE_TEXTS not in paged_cache.group_layers_by_attn_type(model.config.get_text_config()):
        raise ValueError(
            f"continuous batching: head '{head}' remembers the whole text, and all layers of "
            f"{type(model.backbone).__name__} keep a sliding window only; use generate"
        )
    if batching_config.cpu_offload_space != 0:
        raise ValueError(
            f"cpu_offload_space: must be 0 with head '{head}' ({batching_config.cpu_offload_space} given): what it "
            "remembers is not moved along; requests that are put aside are computed again"
        )
    expect_eager(batching_config, head)


def expect_eager(config: Any, head: str) -> None:
    """Raises ValueError where passes are to be compiled or recorded, whose sizes a head changes."""
    graphs = config.use_cuda_graph
    settings = {
        "use_cuda_graph": any(graphs) if isinstance(graphs, tuple) else graphs,
        "varlen_compile_config": config.varlen_compile_config,
        "decode_compile_config": config.decode_compile_config,
        "default_compile_level": config.default_compile_level,
    }
    for name, given in settings.items():
        if given:
            raise ValueError(
                f"{name}: must be off with head '{head}', whose sizes change from pass to pass; leave it out"
            )


def expect_request(model: Any, ids: Sequence[int]) -> None:
    """Raises ValueError where a request has no tokens, or one that is not in the vocabulary."""
    if not len(ids):
        raise ValueError("empty prompt: at least one token is needed; start with the model's bos token")
    expect_known_ids("input_ids", torch.as_tensor(ids), model.get_input_embeddings().weight.shape[0])
