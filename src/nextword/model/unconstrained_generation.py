"""Generation without any constraint that a pretrained model's own settings ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SPECIAL_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_bos_token_id")
"""All that is taken over from a pretrained model's generation settings: what it writes is its distribution's."""


@contextmanager
def unconstrained_generation(model: Any, *, stops: bool = True, **settings: Any) -> Iterator[None]:
    """Within this block the model generates as ``settings`` say and without any constraint of its own settings.

    They are put aside rather than overridden: generate fills up from them whatever it is not told.

    Args:
        model: A model with ``generate``.
        stops: Whether an output ends at the end token.
        **settings: Arguments of transformers' ``GenerationConfig``.
    """
    from transformers import GenerationConfig

    own = model.generation_config
    kept = [name for name in SPECIAL_TOKENS if stops or name != "eos_token_id"]
    special = {name: getattr(own, name, None) for name in kept}
    model.generation_config = GenerationConfig(**special, **settings)
    try:
        yield
    finally:
        model.generation_config = own
