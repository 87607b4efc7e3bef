"""Where the tokens of a pass stand: what is padding, which positions count, what each place is to predict.

Padding is decided here and nowhere else; all later steps read ``valid``, ``position_ids`` and ``targets``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.functional.padding import IGNORED_LABEL
from nextword.model.forward.inputs import PassInputs, Past


@dataclass(frozen=True)
class DecoderSide:
    """The decoder's new tokens.

    Args:
        ids: The tokens; -1 where only their embeddings are given.
        valid: False at padding.
        mask: Attention mask for the backbone.
        position_ids: Positions for the backbone.
        virtual: Places of this pass before the tokens that hold no words (soft prefix); mask and positions have them.
        labels: Label at each place, ignored at padding; None without labels.
        targets: What the state at each place is to predict; None without labels.
    """

    ids: Int[Tensor, "B T"]
    valid: Bool[Tensor, "B T"]
    mask: Any
    position_ids: Tensor | None
    virtual: int
    labels: Int[Tensor, "B T"] | None
    targets: Int[Tensor, "B T"] | None


@dataclass(frozen=True)
class SourceSide:
    """The encoder's text of an encoder-decoder model.

    Args:
        ids: Its tokens, where the head reads them.
        valid: False at padding; None where nothing reads the tokens, because the encoder's outputs are given.
    """

    ids: Int[Tensor, "B E"] | None
    valid: Bool[Tensor, "B E"] | None


@dataclass(frozen=True)
class Sides:
    """All that is known of a pass before anything is computed.

    Args:
        inputs: What came in.
        past: What earlier passes left.
        decoder: The decoder's new tokens.
        source: The encoder's text; None for a decoder-only model.
        auxiliary_valid: False at padding of the auxiliary text; None where none is given.
    """

    inputs: PassInputs
    past: Past
    decoder: DecoderSide
    source: SourceSide | None
    auxiliary_valid: Bool[Tensor, "B A"] | None


def sides_of(model: Any, inputs: PassInputs, past: Past) -> Sides:
    """Where the tokens of a pass stand.

    Args:
        model: A ``NextWordModel``.
        inputs: What came in.
        past: What earlier passes left.

    Raises:
        ValueError: A mask, labels or rows that do not fit the tokens, or a layout that the head's memory cannot follow.
    """
    decoder = _decoder_side(model, inputs, past)
    source = None if inputs.source is None else _source_side(inputs, len(decoder.ids))
    if model.next_word_head.remembers and past.paged is None and inputs.step_mask is None:
        _expect_padding_mask(inputs.decoder.mask)
    text, mask = inputs.auxiliary.text, inputs.auxiliary.aux_attention_mask
    auxiliary = None if text is None else valid_places("aux_attention_mask", mask, text)
    return Sides(inputs, past, decoder, source, auxiliary)


def _decoder_side(model: Any, inputs: PassInputs, past: Past) -> DecoderSide:
    side, embeds = "decoder_" if model.config.is_encoder_decoder else "", inputs.decoder.embeds
    ids = inputs.step_ids if inputs.decoder.ids is None else inputs.decoder.ids
    if ids is None:
        assert embeds is not None
        ids = torch.full(embeds.shape[:2], -1, dtype=torch.long, device=embeds.device)
    if inputs.step_mask is None:
        valid = valid_places(f"{side}attention_mask", inputs.decoder.mask, ids, past.places)
    else:  # of the new tokens alone; the mask itself may have four dimensions by now, or be several
        mask = inputs.step_mask if embeds is None else _widened(inputs.step_mask, embeds.shape[1])
        valid = valid_places(f"{side}attention_mask", mask, ids)
    labels, targets = _labels_and_targets(model, inputs, ids.shape, valid)
    return DecoderSide(ids, valid, *_behind_virtual_places(model, inputs, past), labels, targets)


def valid_places(name: str, mask: Any, tokens: Tensor, past: int | None = 0) -> Bool[Tensor, "B T"]:
    """True at new tokens, False at padding.

    Args:
        name: Of the mask, for messages.
        mask: 2-D attention mask; it covers the places in the KV cache too. Masks of other kinds (4-D, a dictionary,
            none) say who sees whom and nothing about padding, so all tokens are valid.
        tokens: The new ones (B, T) or (B, T, D).
        past: Places that the KV cache holds; None where that is not known.

    Raises:
        ValueError: The mask does not fit the tokens, or its numbers are no 1 and 0.
    """
    rows, places = tokens.shape[:2]
    if isinstance(mask, list | tuple) or (isinstance(mask, Tensor) and mask.ndim < 2):
        given = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"{name}: must be a tensor (batch, places), 1 for tokens and 0 for padding ({given} given)")
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return torch.ones((rows, places), dtype=torch.bool, device=tokens.device)
    fits = mask.shape[1] >= places if past is None else mask.shape[1] == places + past
    if len(mask) != rows or not fits:
        held = f", {past} places in the KV cache and {places} new ones" if past else ""
        raise ValueError(f"{name}: must be ({rows}, {places + (past or 0)}){held} (shape {tuple(mask.shape)} given)")
    if mask.device.type == "cpu" and not is_torchdynamo_compiling() and bool((mask < 0).any()):
        raise ValueError(
            f"{name}: {mask.min().item():g} found, 1 stands for tokens and 0 for padding; a mask that is added to "
            "attention scores has four dimensions"
        )
    return mask[:, -places:].bool()


def step_mask(mask: Tensor, places: int) -> Tensor:
    """The padding mask of the last ``places`` of a text alone, from that of the whole text (B, S)."""
    # contiguous: the stride of a view would grow with every step, and each stride compiles a new graph
    return mask[:, -places:].clone(memory_format=torch.contiguous_format)


def _widened(mask: Tensor, places: int) -> Tensor:
    """A mask of new tokens with the vectors that peft puts before them (prompt tuning) after the mask was made."""
    missing = places - mask.shape[1]
    return nn.functional.pad(mask, (missing, 0), value=1) if missing > 0 else mask


def _labels_and_targets(
    model: Any, inputs: PassInputs, shape: torch.Size, valid: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """The label of each place, and what the state at each place has to predict; None of either without labels."""

    def fitted(name: str, labels: Tensor | None) -> Tensor | None:
        if labels is not None and labels.shape != shape:
            raise ValueError(f"{name}: must be as the tokens are, {tuple(shape)} (shape {tuple(labels.shape)} given)")
        return None if labels is None else labels.masked_fill(~valid, IGNORED_LABEL)

    targets, labels = fitted("shift_labels", inputs.shift_labels), fitted("labels", inputs.labels)
    if labels is None:
        return (None if targets is None else nn.functional.pad(targets[:, :-1], (1, 0), value=IGNORED_LABEL)), targets
    if model.config.is_encoder_decoder:
        return labels, labels
    if targets is None:
        # the state at a place predicts the token after it; at padding there is no such state, and nothing predicts the
        # first token of a text
        counts = valid if inputs.texts is None else valid & ~inputs.texts.ends
        targets = nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED_LABEL).masked_fill(~counts, IGNORED_LABEL)
    return labels, targets


def _behind_virtual_places(model: Any, inputs: PassInputs, past: Past) -> tuple[Any, Tensor | None, int]:
    """Mask and positions behind the vectors that a conditioner puts before the text, and how many this pass has.

    The first pass has these vectors, later ones find them in the cache.
    """
    mask, positions = inputs.decoder.mask, inputs.position_ids
    count: int = 0 if model.conditioner is None else model.conditioner.virtual
    if not count:
        return mask, positions, 0
    custom = mask is not None and (isinstance(mask, dict) or mask.ndim != 2)
    if custom or (past.kv_cache is not None and past.kv_cache.is_compileable):
        raise ValueError(
            "conditioner 'prefix': its places are not in a static cache or a custom attention mask; use the dynamic "
            "cache and a 2-D padding mask"
        )
    if mask is not None:
        mask = torch.cat([mask.new_ones(len(mask), count), mask], 1)
    virtual = 0 if past.held else count
    if positions is not None:
        before = torch.arange(virtual, device=positions.device).expand(len(positions), -1)
        positions = torch.cat([before.to(positions.dtype), positions + count], 1)
    return mask, positions, virtual


def _source_side(inputs: PassInputs, rows: int) -> SourceSide:
    assert inputs.source is not None
    text, encoded, words = inputs.source, inputs.encoder_outputs, inputs.source_ids
    tokens = text.embeds if text.ids is None else text.ids
    states = tokens if encoded is None else encoded[0]
    if states is not None and len(states) != rows:
        raise ValueError(f"source: {len(states)} rows for {rows} of the decoder; each needs a source of its own")
    if words is not None and states is not None and words.shape != states.shape[:2]:
        raise ValueError(
            f"source_ids: must have one token for each of the encoder's states, {tuple(states.shape[:2])} (shape "
            f"{tuple(words.shape)} given)"
        )
    if words is not None and text.mask is not None and getattr(text.mask, "ndim", 2) != 2:
        raise ValueError("this head reads the source's words: pass the source's 2-D padding mask (batch, places)")
    looked_at = words if tokens is None else tokens
    valid = None if looked_at is None else valid_places("attention_mask", text.mask, looked_at)
    return SourceSide(words, valid)


def _expect_padding_mask(mask: Any) -> None:
    """Raises ValueError where a mask says who sees whom, which a head's memory does not follow."""
    if mask is not None and getattr(mask, "ndim", None) != 2:
        raise ValueError(
            "this head remembers earlier places and cannot follow a custom attention mask: pass the 2-D padding mask "
            "(batch, places)"
        )
