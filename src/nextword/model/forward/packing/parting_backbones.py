"""Which backbones keep the texts of a row apart where their positions begin anew; asked by reading such a row."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nextword.functional.logspace import at_least_float32
from nextword.model.training_modes import measuring
from nextword.runtime.devices import device_of

_NO_ATTENTION = {"conv", "hybrid", "hybrid_sliding", "linear_attention"}
"""Kinds of layers, by the names that transformers gives them, that have no mask."""

_STARTS, _LENGTH = (3, 5, 9), 4
"""Three texts of consecutive tokens are read: the first token of each, and how many each has."""

_SHARE = 0.25
"""Of what a text in front changes, a backbone that keeps texts apart leaves less than this, rounding included."""


class TextReadings(NamedTuple):
    """Log-probabilities of a text: behind others with positions of its own, behind them as one text, and alone."""

    apart: Float[Tensor, "T V"]
    together: Float[Tensor, "T V"]
    alone: Float[Tensor, "T V"]

    def share_left(self) -> float:
        """Of what the texts in front change where all are one, how much they change where each has its positions."""
        return _distance(self.apart, self.alone) / _distance(self.together, self.alone)


def readings(model: Any) -> TextReadings | None:
    """Three ways in which the backbone reads one short text; None where it cannot read a row without a mask.

    Transformers parts the texts of a row by their positions where it is given no mask and no cache. With a mask of ones
    the same positions are read and nothing is parted.
    """
    embedding = model.get_input_embeddings()
    device, known = device_of(embedding), embedding.weight.shape[0]
    texts = tuple(torch.arange(start, start + _LENGTH, device=device) % known for start in _STARTS)
    ones = torch.ones(1, len(texts) * _LENGTH, dtype=torch.long, device=device)
    try:
        apart, together = _last(model, texts), _last(model, texts, attention_mask=ones)
    except Exception:  # of anything: it cannot read a row without a mask, so it cannot be given two texts
        return None
    return TextReadings(apart, together, _last(model, texts[-1:]))


def parts_texts(model: Any) -> bool:
    """Whether the backbone reads a text behind others as it reads it alone; tried once for a kind of attention.

    Args:
        model: A ``NextWordModel``.
    """
    known: dict[str, bool] = model._parts_texts
    kind = attention_of(model)
    if kind not in known:
        with measuring(model.backbone):
            found = None if carries_over(model) else readings(model)
        known[kind] = found is not None and found.share_left() < _SHARE
    return known[kind]


def attention_of(model: Any) -> str:
    """The name of how attention is computed, as transformers has it."""
    return str(model.config.get_text_config(decoder=True)._attn_implementation)


def carries_over(model: Any) -> bool:
    """Whether layers that are no attention hand something on from place to place."""
    kinds = set(getattr(model.config.get_text_config(decoder=True), "layer_types", None) or [])
    return getattr(model.backbone, "_is_stateful", False) or bool(kinds & _NO_ATTENTION)


def packed_row(model: Any, texts: tuple[Tensor, ...]) -> dict[str, Any]:
    """Arguments of a call on texts that stand in one row, and whose positions say where each begins."""
    inputs: dict[str, Any] = {"input_ids": torch.cat(texts)[None]}
    inputs["position_ids"] = _restarting(texts) + first_position(model)
    taken = inspect.signature(model.backbone.forward).parameters.values()
    if any(one.name == "use_cache" or one.kind is one.VAR_KEYWORD for one in taken):
        inputs["use_cache"] = False  # with a cache, transformers looks for no second text
    return inputs


def first_position(model: Any) -> int:
    """The position of a first token: 0, or what follows the one that RoBERTa and its kin keep for padding."""
    named = model.backbone.named_modules()
    tables = [part for name, part in named if isinstance(part, nn.Embedding) and "position" in name.rpartition(".")[2]]
    kept = [table.padding_idx for table in tables if table.padding_idx is not None]
    return max(kept) + 1 if kept else 0


def _restarting(texts: tuple[Tensor, ...]) -> Int[Tensor, "1 T"]:
    return torch.cat([torch.arange(len(text), device=text.device) for text in texts])[None]


def _last(model: Any, texts: tuple[Tensor, ...], **more: Any) -> Float[Tensor, "T V"]:
    logits = model.backbone(**packed_row(model, texts), **more).logits
    return at_least_float32(logits[0, -len(texts[-1]) :]).log_softmax(-1)


def _distance(a: Tensor, b: Tensor) -> float:
    """The largest difference, more than 0; a token that is impossible both times differs by nothing."""
    return float((a - b).abs().masked_fill(a == b, 0.0).max().clamp_min(torch.finfo(a.dtype).tiny))
