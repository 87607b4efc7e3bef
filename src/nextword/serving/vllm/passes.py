"""Where the tokens of a pass lie in the KV cache, from what vLLM tells its attention layers.

Rows: vLLM asks for logits of some rows of the states that a pass gave, in any choice (sampled tokens, chunks of a
prompt). Which rows these are it does not say. So each row carries its number, in columns behind the state.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.model.head_cache.slots import PassSlots

_DIGITS, _BASE = 3, 256
"""Digits of a row's number. bfloat16 holds whole numbers up to 256 exactly."""


def with_row_numbers(states: Float[Tensor, "N D"]) -> Float[Tensor, "N D+3"]:
    """States that carry the number of their row."""
    rows = torch.arange(len(states), device=states.device)
    digits = torch.stack([(rows // _BASE**place) % _BASE for place in range(_DIGITS)], dim=1)
    return torch.cat([states, digits.to(states.dtype)], dim=1)


def split_row_numbers(carried: Float[Tensor, "M D+3"]) -> tuple[Float[Tensor, "M D"], Int[Tensor, "M"]]:
    """The states, and the numbers that they carry."""
    states, digits = carried[:, :-_DIGITS], carried[:, -_DIGITS:].long()
    powers = torch.tensor([_BASE**place for place in range(_DIGITS)], device=digits.device)
    return states, (digits * powers).sum(1)


class KVCacheLayer:
    """The attention layer whose part of the KV cache a head's memory follows: one that keeps whole texts.

    Args:
        vllm_config: All settings of vLLM, after the backbone was built with them.

    Raises:
        ValueError: Every layer keeps a window only, or the backbone has other layers than attention.
    """

    def __init__(self, vllm_config: Any) -> None:
        from vllm.config import get_layers_from_vllm_config
        from vllm.model_executor.layers.attention import Attention

        self._cache = vllm_config.cache_config
        layers = get_layers_from_vllm_config(vllm_config, Attention)
        whole = [name for name, layer in layers.items() if layer.sliding_window is None]
        if not whole:
            raise ValueError("the backbone has no attention layer that keeps the whole text, so a head cannot read it")
        self._name = whole[-1]

    @property
    def slots(self) -> int:
        """How many places the KV cache has."""
        return int(self._cache.num_gpu_blocks * self._cache.block_size)

    def current(self) -> PassSlots | None:
        """Of the pass that is under way; None while vLLM only measures its memory."""
        from vllm.forward_context import get_forward_context

        metadata = get_forward_context().attn_metadata
        if not isinstance(metadata, dict):
            return None
        own = metadata[self._name]
        requests = len(own.seq_lens)
        return PassSlots.of_blocks(
            starts=own.query_start_loc[: requests + 1],
            lengths=own.seq_lens,
            table=own.block_table[:requests],
            block_size=self._cache.block_size,
            count=own.num_actual_tokens,
            longest=own.max_seq_len,
        )
