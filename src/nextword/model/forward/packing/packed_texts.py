"""Where the rows of a pass hold several texts, which their positions tell apart by beginning anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.model.forward.graph_breaks import PACKED, outside_graph
from nextword.model.forward.packing.parting_backbones import attention_of, parts_texts
from nextword.model.forward.packing.text_rows import TextRows
from nextword.model.head_cache.paged_cache import is_paged


def text_rows_of(model: Any, given: Mapping[str, Any]) -> TextRows | None:
    """The rows of the texts of a pass, where its own rows hold several that the backbone keeps apart; else None.

    Nothing is looked at where nobody asks: a head that looks back does, and a loss.

    Args:
        model: A ``NextWordModel``.
        given: Arguments of its forward, by name.

    Raises:
        ValueError: The head would see several texts as one.
    """
    head, positions = model.next_word_head, given.get("position_ids")
    asks = head.remembers or "labels" in given or "shift_labels" in given
    if positions is None or positions.ndim != 2 or positions.shape[1] == 1 or is_paged(given) or not asks:
        return None
    why = _why_together(model, given, positions)
    if not why:
        return _parted(model, given, positions)
    if head.remembers and not is_torchdynamo_compiling():
        _expect_one_text_a_row(given, positions, why)
    return None


def _why_together(model: Any, given: Mapping[str, Any], positions: Tensor) -> str:
    """Why texts of one row are read as one, with what to do; nothing where transformers parts them."""
    if model.config.is_encoder_decoder or model.conditioner is not None:
        return "they have one source"
    if given.get("memory") is not None:
        return "memory goes on with all rows as one text"
    if given.get("attention_mask") is not None or given.get("step_mask") is not None:
        return "with an attention_mask the backbone reads them as one, so leave it out"
    cached = given.get("past_key_values", given.get(model._cache_argument)) is not None
    if cached or given.get("use_cache"):
        return "with a KV cache the backbone reads them as one, so set use_cache=False and give none"
    if _is_flash(model) and positions.shape[0] > 1:
        return "flash attention parts the texts of a single row only, so give batches of one row"
    return ""


@outside_graph(PACKED)
def _parted(model: Any, given: Mapping[str, Any], positions: Int[Tensor, "_ T"]) -> TextRows | None:
    """The rows of texts that the backbone keeps apart. It is tried out before there are any, on all processes alike."""
    apart = parts_texts(model)
    tokens = given["input_ids"] if "input_ids" in given else given["inputs_embeds"]
    if positions.shape[0] not in (1, tokens.shape[0]) or positions.shape[1] != tokens.shape[1]:
        return None  # the backbone says what does not fit
    begins = _begins(model, positions.expand(tokens.shape[0], -1))
    if not begins[:, 1:].any():
        return None
    if not apart:
        if model.next_word_head.remembers:
            _expect_one_text_a_row(given, positions, f"{type(model.backbone).__name__} does not keep them apart")
        return None
    return TextRows.of(begins)


def _begins(model: Any, positions: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """Where texts begin, by the rule of the attention that parts them."""
    begins = torch.ones_like(positions, dtype=torch.bool)
    begins[:, 1:] = positions[:, 1:] != positions[:, :-1] + 1
    if _is_flash(model):
        begins[:, 1:] = positions[:, 1:] == positions.min()
    return begins


def _is_flash(model: Any) -> bool:
    return "flash" in attention_of(model)


def _expect_one_text_a_row(given: Mapping[str, Any], positions: Int[Tensor, "_ T"], why: str) -> None:
    """Raises ValueError where positions go back within a row; those at padding say nothing."""
    back, mask = positions[:, 1:] < positions[:, :-1], given.get("step_mask", given.get("attention_mask"))
    if mask is not None:
        valid = mask[:, -positions.shape[1] :].bool() if getattr(mask, "ndim", None) == 2 else None
        if valid is None or valid.shape[1] != positions.shape[1] or positions.shape[0] not in (1, len(valid)):
            return  # what is wrong with such a mask is said where padding is decided
        back = back & valid[:, 1:] & valid[:, :-1]
    if back.any():
        raise ValueError(
            f"position_ids start again within a row: several texts packed into one row would remember each other "
            f"({why}); give each text a row of its own"
        )
