"""One pass of the backbone, turned into what a context is made of."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.context import Memory, Source
from nextword.heads import head_spec
from nextword.memory.history import History, StaticHistory, attach_history, history_of, kv_length, new_cache
from nextword.model.forward.auxiliary_inputs import Auxiliary, auxiliary_of, put_in
from nextword.model.forward.decoder_inputs import (
    DecoderInputs,
    expect_ids,
    expect_known_ids,
    expect_positions,
    too_long,
    valid_places,
)
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.forward.output_tap import run_tapped


@dataclass(frozen=True)
class Observation:
    """What one pass showed.

    Args:
        outputs: What the caller asked of the backbone; no logits.
        decoder: The decoder's new tokens.
        states: What the output layer reads (B, T, D).
        inputs: What the head's projections read (B, T, Q).
        past: Places before the first new token.
        memory: The sequences so far, where the head remembers.
        source: The encoder's side or the auxiliary text, where the head reads it.
        output_layer: That of the backbone.
        auxiliary: What the conditioner made of the auxiliary text, where there is a conditioner.
    """

    outputs: Any
    decoder: DecoderInputs
    states: Tensor
    inputs: Tensor
    past: int | Tensor
    memory: Memory | None
    source: Source | None
    output_layer: OutputLayer
    auxiliary: Auxiliary | None

    def with_labels(self, labels: Tensor) -> Observation:
        """With labels in memory, for objectives that ask for them; only where the whole sequence is at hand."""
        if self.memory is None or self.memory.ids.shape != labels.shape:
            return self
        return replace(self, memory=replace(self.memory, labels=labels))


def observe(model: Any, inputs: dict[str, Any]) -> Observation:
    """Runs the backbone of ``model`` on the arguments of a forward call.

    Args:
        model: A :class:`~nextword.model.modeling.NextWordModel`.
        inputs: Arguments of its forward that are not None; those named ``source_ids``, ``step_mask``, ``step_ids`` and
            the labels are for the head only.
    """
    head, seq2seq = model.next_word_head, model.config.is_encoder_decoder
    inputs = {name: value for name, value in inputs.items() if value is not None}
    labels, shift_labels = inputs.pop("labels", None), inputs.pop("shift_labels", None)
    if seq2seq and labels is not None and not {"decoder_input_ids", "decoder_inputs_embeds"} & set(inputs):
        inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels)
    source_ids = inputs.pop("source_ids", inputs.get("input_ids")) if seq2seq else None
    padding_known = "step_mask" in inputs  # generation may have made a 4-D mask of it, or several
    decoder = _decoder_inputs(model, inputs)
    if labels is not None or shift_labels is not None:
        inputs.setdefault("use_cache", False)
    expect_positions(inputs.get("position_ids"))
    if seq2seq:
        _expect_source(model, inputs, len(decoder.ids))
    if head.remembers:
        mask = None if padding_known else inputs.get("decoder_attention_mask" if seq2seq else "attention_mask")
        _expect_one_text_a_row(mask, inputs.get("position_ids"), decoder.valid)
    history = _history(model, inputs)
    auxiliary = auxiliary_of(model, inputs, len(decoder.ids), history)
    virtual = 0 if auxiliary is None else put_in(model, inputs, auxiliary, history)
    wanted_layers = inputs.get("output_hidden_states", getattr(model.config.text_config, "output_hidden_states", False))
    if head.layers:
        inputs["output_hidden_states"] = True

    output_layer = OutputLayer(model.backbone)
    accepted = {name: value for name, value in inputs.items() if name in model._accepts or name not in _NAMED}
    try:
        outputs, states = run_tapped(model.backbone, accepted)
    except IndexError as fault:
        message = _too_long(model, inputs, decoder, virtual)
        if message is None:
            raise
        raise ValueError(message) from fault

    states = states[:, virtual:]
    layers = _last_layers(model, outputs, head.layers, states)
    read = head.inputs(states, layers, decoder.valid, history)
    past: int | Tensor = 0
    memory = None
    if history is not None:
        memory, past = history.append(decoder.ids, decoder.valid, head.streams(states, read))
    source = auxiliary.source if auxiliary is not None else None
    if source is None and head.reads_source:
        source = _source(model, outputs, inputs, source_ids, history)
    shown = {name: value for name, value in outputs.items() if name != "logits"}
    if head.layers:
        shown |= {name: _selected(shown.pop(name), wanted_layers) for name in _HIDDEN if name in shown}
    asked = type(outputs)(**shown)
    return Observation(asked, decoder, states, read, past, memory, source, output_layer, auxiliary)


_HIDDEN = frozenset({"hidden_states", "decoder_hidden_states", "encoder_hidden_states"})


def _selected(layers: tuple[Tensor, ...], wanted: bool | int | Sequence[int]) -> tuple[Tensor | None, ...] | None:
    """The layers that ``output_hidden_states`` asks for, None in place of the others; None where it asks for none.

    >>> [layer is None for layer in _selected((Tensor(), Tensor(), Tensor()), [0, -1])]
    [False, True, False]
    """
    if not wanted or wanted is True:
        return layers if wanted else None
    numbers = {wanted} if isinstance(wanted, int) else set(wanted)
    count = len(layers)
    return tuple(layer if {place, place - count} & numbers else None for place, layer in enumerate(layers))


_NAMED = frozenset(
    {"position_ids", "past_key_values", "inputs_embeds", "use_cache", "attention_mask", "decoder_attention_mask"}
)
"""Arguments that forward names and some backbones do not take; all others go to the backbone as the caller said."""


def _decoder_inputs(model: Any, inputs: dict[str, Any]) -> DecoderInputs:
    step_mask, step_ids = inputs.pop("step_mask", None), inputs.pop("step_ids", None)
    side = "decoder_" if model.config.is_encoder_decoder else ""
    ids, embeds = inputs.get(f"{side}input_ids", None if side else step_ids), inputs.get(f"{side}inputs_embeds")
    if ids is None and embeds is not None and model.next_word_head.reads_words and not is_torchdynamo_compiling():
        warnings.warn(
            f"{side}inputs_embeds without {side}input_ids: head '{head_spec(model.next_word_head.config)}' looks at "
            f"words, and knows none here; pass {side}input_ids beside {side}inputs_embeds. (Prompt tuning of peft "
            "passes embeddings alone: take LoRA or prefix tuning, or a head that looks at no words.)",
            stacklevel=2,
        )
    if step_mask is not None:  # generation's, of the new tokens alone
        if embeds is not None and step_mask.shape[1] < embeds.shape[1]:
            # peft puts vectors of its own before them (prompt tuning), after the mask was made
            step_mask = nn.functional.pad(step_mask, (embeds.shape[1] - step_mask.shape[1], 0), value=1)
        return DecoderInputs.of(ids, embeds, step_mask, model.backbone, side=side)
    past = _known_past(model, inputs.get("past_key_values"))
    return DecoderInputs.of(ids, embeds, inputs.get(f"{side}attention_mask"), model.backbone, side=side, past=past)


def _known_past(model: Any, kv_cache: Any) -> int | None:
    """Places of the text that a KV cache holds; None where it keeps no count, or none on the host."""
    if kv_cache is None:
        return 0
    held = None if getattr(kv_cache, "is_compileable", True) else kv_length(kv_cache)
    if not isinstance(held, int):
        return None
    history = history_of(kv_cache)
    return held - (0 if history is None else history.virtual)


def expect_source(model: Any, ids: Any) -> None:
    """Raises ValueError where an encoder would be given no tokens, or tokens outside the vocabulary."""
    ids = expect_ids("input_ids", ids, vectors="inputs_embeds")
    if ids.numel() == 0:
        raise ValueError("empty source: at least one token is needed")
    expect_known_ids("input_ids", ids, model.get_input_embeddings().weight.shape[0])


def _expect_source(model: Any, inputs: dict[str, Any], rows: int) -> None:
    """Raises ValueError where source, its mask and the decoder's rows do not go together."""
    encoded, embeds, ids = (inputs.get(name) for name in ("encoder_outputs", "inputs_embeds", "input_ids"))
    if encoded is None and ids is not None:
        expect_source(model, ids)
    source = embeds if ids is None else ids
    if encoded is None and source is not None:
        valid_places("attention_mask", inputs.get("attention_mask"), source)
    source = source if encoded is None else encoded[0]
    if source is not None and len(source) != rows:
        raise ValueError(f"source: {len(source)} rows for {rows} of the decoder; each needs a source of its own")


def _expect_one_text_a_row(mask: Any, positions: Tensor | None, valid: Tensor) -> None:
    """Raises ValueError where a row is laid out in a way that a head's memory does not follow."""
    if mask is not None and getattr(mask, "ndim", None) != 2:
        raise ValueError(
            "this head remembers earlier places and cannot follow a custom attention mask: pass the 2-D padding mask "
            "(batch, places)"
        )
    if positions is None or positions.ndim != 2 or positions.shape[1] == 1 or is_torchdynamo_compiling():
        return
    inside = valid[:, 1:] & valid[:, :-1]
    if ((positions[:, 1:] < positions[:, :-1]) & inside).any():
        raise ValueError(
            "position_ids start again within a row: several texts packed into one row would remember each other; give "
            "each text a row of its own"
        )


def _too_long(model: Any, inputs: dict[str, Any], decoder: DecoderInputs, virtual: int) -> str | None:
    """What to say if it was a text beyond the model's positions that the backbone could not look up."""
    kv_cache, source = inputs.get("past_key_values"), inputs.get("input_ids")
    past = None if kv_cache is None else kv_length(kv_cache)
    message = too_long(model.config.get_text_config(decoder=True), decoder.ids.shape[1] + virtual + int(past or 0))
    if message is None and model.config.is_encoder_decoder and source is not None:
        message = too_long(model.config.get_text_config(encoder=True), source.shape[1])
    return message


def _history(model: Any, inputs: dict[str, Any]) -> History | None:
    """Where this pass adds its places: the history of the given cache, of a new one, or one for this pass alone."""
    if not model.carries_history:
        return None
    config = model.config.get_text_config(decoder=True)
    kv_cache = inputs.get("past_key_values")
    if kv_cache is None:
        wanted = inputs.get("use_cache", getattr(config, "use_cache", True)) and not model.training
        if not wanted:
            return History()
        if model.config.is_encoder_decoder:
            config = model.get_decoder().config  # the model's own counts the encoder's layers
        kv_cache = new_cache(config)
        if model.config.is_encoder_decoder:
            kv_cache = EncoderDecoderCache(kv_cache, DynamicCache(config=config))
        inputs["past_key_values"] = kv_cache
    history = history_of(kv_cache)
    if history is None:
        return attach_history(kv_cache, getattr(config, "max_position_embeddings", None))
    held = kv_length(kv_cache)
    if not isinstance(history, StaticHistory) and held is not None and held != history.length + history.virtual:
        raise ValueError(
            f"the KV cache holds {held} places and the head's history {history.length}: the cache was "
            "changed behind the model's back, or filled by the bare backbone after the head had seen it"
        )
    return history


def _last_layers(model: Any, outputs: Any, count: int, states: Tensor) -> tuple[Tensor, ...]:
    if not count:
        return ()
    hidden = outputs.decoder_hidden_states if model.config.is_encoder_decoder else outputs.hidden_states
    scale = model.config.state_scale
    last = [hidden[-1 - i][:, -states.shape[1] :] for i in range(count)]
    return tuple((layer if scale == 1.0 else layer * scale).to(states.dtype) for layer in last)


def _source(
    model: Any, outputs: Any, inputs: dict[str, Any], source_ids: Tensor | None, history: History | None
) -> Source:
    if source_ids is None:
        raise ValueError(
            f"head '{head_spec(model.next_word_head.config)}' reads the source's words: pass input_ids, or "
            "source_ids where encoder_outputs are given"
        )
    source_ids, states = expect_ids("source_ids", source_ids), outputs.encoder_last_hidden_state
    expect_known_ids("source_ids", source_ids, model.get_input_embeddings().weight.shape[0])
    if source_ids.shape != states.shape[:2]:
        raise ValueError(
            f"source_ids: must have one token for each of the encoder's states, {tuple(states.shape[:2])} (shape "
            f"{tuple(source_ids.shape)} given)"
        )
    mask = inputs.get("attention_mask")
    if mask is not None and mask.ndim != 2:
        raise ValueError("this head reads the source's words: pass the source's 2-D padding mask (batch, places)")
    valid = valid_places("attention_mask", mask, source_ids)
    if history is None:
        return Source(source_ids, valid, states, model.next_word_head.source_streams(states))
    kept = history.of_source(lambda: model.next_word_head.source_streams(states))
    return Source(source_ids, valid, states, kept)
