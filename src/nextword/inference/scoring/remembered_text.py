"""A text that was read before the KV cache began, for a head that looks back further than its window."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import DynamicCache

from nextword.inference.scoring.opened_model import longest_of
from nextword.inference.scoring.remembered_windows import looks_beyond_windows, remembered_windows
from nextword.inference.scoring.windows import windows_after
from nextword.model.head_cache.kv_cache import put_history_on
from nextword.model.head_cache.long_memory import LongMemory
from nextword.model.training_modes import measuring


def remember(
    model: Any, ids: Int[Tensor, "M"], *, window: int | None = None, stride: int | None = None, batch_size: int = 8
) -> DynamicCache:
    """Reads a text in windows, and gives an empty KV cache behind which the head remembers it.

    What is written with the cache goes on after the text, which may be longer than the model has positions for::

        model = nw.attach(backbone, "cache:long=12288")
        cache = remember(model, book[:-200])
        model.generate(book[None, -200:], past_key_values=cache)

    Args:
        model: A decoder-only model of ours whose head looks back beyond its window.
        ids: The text, a start token first.
        window: Tokens that the backbone sees at once; by default its positions, at most 1,024.
        stride: New tokens of each window after the first; by default half a window.
        batch_size: Windows at a time.

    Raises:
        ValueError: The head looks back over its window alone, or the window does not fit.
    """
    if not looks_beyond_windows(model):
        raise ValueError(
            "model: must have a head that looks back beyond its window (none here); attach one such as cache:long=12288"
        )
    longest = longest_of(model)
    window = window or min(longest or 1024, 1024)
    if longest is not None and window > longest:
        raise ValueError(f"window: must be at most {longest:,}, what the model can see ({window:,} given)")
    memory, after = LongMemory(start=int(ids[0])), len(ids) + 1
    stream = torch.cat([ids.cpu(), ids[:1].cpu()])  # what comes after the last token is not known, and not asked for
    spans = windows_after(1, after, window, stride or max(1, window // 2))
    with measuring(model):
        for _ in remembered_windows(model, stream, spans, batch_size, memory=memory, first=after):
            pass
    kv_cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    memory.before_cache()
    put_history_on(kv_cache, memory)
    return kv_cache
