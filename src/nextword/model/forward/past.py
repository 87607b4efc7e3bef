"""What earlier passes left: the KV cache, and the memory of the head that rides in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from nextword.model.forward.pass_inputs import PassInputs
from nextword.model.head_cache.growing_history import GrowingHistory
from nextword.model.head_cache.history import History
from nextword.model.head_cache.kv_cache import attach_history, history_of, kv_length, new_cache
from nextword.model.head_cache.paged_cache import is_paged, paged_memory
from nextword.model.head_cache.slots import PagedMemory


@dataclass(frozen=True)
class Past:
    """What came before the new tokens.

    Args:
        kv_cache: The cache that was given, or a new one where a history needs one to ride in.
        history: Where this pass adds its places; None where nothing is remembered after it.
        held: Places in the KV cache; None where it keeps no count.
        places: Those of them that belong to the text; None where that is not known on the host.
        paged: The memory of a pass of continuous batching, in place of a history.
    """

    kv_cache: Any
    history: History | None
    held: int | Tensor | None
    places: int | None
    paged: PagedMemory | None = None


def past_of(model: Any, inputs: PassInputs) -> Past:
    """The past of a pass: that of the given cache, or of a new one where something is to be remembered after it.

    Args:
        model: A ``NextWordModel``.
        inputs: What came in.

    Raises:
        ValueError: The cache was changed behind the head's back.
    """
    if inputs.memory is not None:
        return Past(None, inputs.memory, 0, 0)
    kv_cache = inputs.kv_cache
    if model.next_word_head.remembers and is_paged(inputs.further):
        assert inputs.decoder.ids is not None, "continuous batching gives tokens"
        return Past(None, None, None, None, paged_memory(inputs.further, inputs.decoder.ids.shape[1]))
    if kv_cache is None:
        return _new(model, inputs.use_cache)
    history, held = history_of(kv_cache), kv_length(kv_cache)
    places: int | None = None
    if isinstance(held, int) and not getattr(kv_cache, "is_compileable", True):
        places = held - (0 if history is None else history.virtual)
    if not model.carries_history:
        return Past(kv_cache, None, held, places)
    if history is None:
        limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        return Past(kv_cache, attach_history(kv_cache, limit), held, places)
    if isinstance(history.length, int) and held is not None and held != history.length + history.virtual:
        raise ValueError(
            f"the KV cache holds {held} places and the head's history {history.length}: the cache was "
            "changed behind the model's back, or filled by the bare backbone after the head had seen it"
        )
    return Past(kv_cache, history, held, places)


def _new(model: Any, use_cache: bool | None) -> Past:
    """Nothing came before; a cache is made where a history is to live on after this pass."""
    if not model.carries_history:
        return Past(None, None, 0, 0)
    config = model.config.get_text_config(decoder=True)
    wanted = getattr(config, "use_cache", True) if use_cache is None else use_cache
    if not wanted or model.training:
        return Past(None, None, 0, 0)
    if not model._supports_default_dynamic_cache():
        return Past(None, GrowingHistory(), 0, 0)
    if not model.config.is_encoder_decoder:
        kv_cache = new_cache(config)
        return Past(kv_cache, history_of(kv_cache), 0, 0)
    config = model.get_decoder().config  # the model's own counts the encoder's layers
    # cross-attention reads every place of the source, also where the decoder's own layers have windows (T5Gemma)
    both = EncoderDecoderCache(new_cache(config), DynamicCache())
    return Past(both, history_of(both), 0, 0)
