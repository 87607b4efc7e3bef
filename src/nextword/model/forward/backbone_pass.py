"""One run of the backbone: from the sides of a pass to the states that the head reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nextword.model.forward.auxiliary_side import AuxiliarySide
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.forward.output_tap import run_with_output_tap
from nextword.model.forward.padding_and_targets import Sides
from nextword.model.head_cache.kv_cache import put_history_on
from nextword.runtime.pretrained import encoder_config


@dataclass(frozen=True)
class BackbonePass:
    """What one run of the backbone gave.

    Args:
        outputs: What the caller asked of the backbone; no logits.
        states: What the output layer reads at the new tokens (B, T, D).
        layers: The last decoder hidden states there, the last one first, as many as the head reads.
        source_states: Last hidden state of the encoder; None for a decoder-only model.
        output_layer: That of the backbone.
    """

    outputs: Any
    states: Tensor
    layers: tuple[Tensor, ...]
    source_states: Tensor | None
    output_layer: OutputLayer


def run_backbone(model: Any, sides: Sides, auxiliary: AuxiliarySide | None) -> BackbonePass:
    """Runs the backbone of ``model`` up to its output layer.

    Args:
        model: A ``NextWordModel``.
        sides: Those of the pass.
        auxiliary: What was made of the auxiliary text.

    Raises:
        ValueError: The text is longer than the model has positions for.
    """
    arguments = _arguments(model, sides, auxiliary)
    head, text_config = model.next_word_head, model.config.text_config
    wanted_layers = arguments.get("output_hidden_states", getattr(text_config, "output_hidden_states", False))
    output_layer = OutputLayer(model.backbone)  # before the states, so that its gradient can come after theirs
    try:
        wanted = arguments | ({"output_hidden_states": True} if head.layers else {})
        outputs, states = run_with_output_tap(model.backbone, wanted)
    except IndexError as fault:
        message = _too_long(model, sides)
        if message is None:
            raise
        raise ValueError(message) from fault
    made, past = outputs.get(model._cache_argument), sides.past
    if past.history is not None and past.kv_cache is None and made is not None:
        put_history_on(made, past.history)  # a cache of the backbone's own class (MiniMax, xLSTM)
    states = states[:, sides.decoder.virtual :]
    shown = {name: value for name, value in outputs.items() if name != "logits"}
    if head.layers:
        shown |= {name: _selected(shown[name], wanted_layers) for name in _HIDDEN if name in shown}
    return BackbonePass(
        outputs=type(outputs)(**shown),
        states=states,
        layers=_last_layers(model, outputs, states),
        source_states=outputs.encoder_last_hidden_state if model.config.is_encoder_decoder else None,
        output_layer=output_layer,
    )


_NOT_EVERYWHERE = frozenset(
    {"position_ids", "past_key_values", "inputs_embeds", "use_cache", "attention_mask", "decoder_attention_mask"}
)
"""Arguments that forward names and some backbones do not take; all others go to the backbone as the caller said."""


def _arguments(model: Any, sides: Sides, auxiliary: AuxiliarySide | None) -> dict[str, Any]:
    """The backbone's arguments, by name."""
    inputs, decoder = sides.inputs, sides.decoder
    side = "decoder_" if model.config.is_encoder_decoder else ""
    ids, embeds, mask = inputs.decoder.ids, inputs.decoder.embeds, decoder.mask
    if model._cache_argument == "cache_params" and isinstance(mask, Tensor) and mask.ndim == 2:
        mask = mask[:, -decoder.ids.shape[1] :]  # of the new tokens alone: a state-space layer looks back at no place
    if auxiliary is not None and auxiliary.before_text is not None:
        embeds = model.get_input_embeddings()(ids) if embeds is None else embeds
        ids, embeds = None, torch.cat([auxiliary.before_text.to(embeds.dtype), embeds], 1)
    named = {
        f"{side}input_ids": ids,
        f"{side}inputs_embeds": embeds,
        f"{side}attention_mask": mask,
        "position_ids": decoder.position_ids,
        model._cache_argument: sides.past.kv_cache,
        "use_cache": inputs.use_cache,
        **({} if auxiliary is None else auxiliary.backbone_inputs),
    }
    if inputs.source is not None:
        named |= {
            "input_ids": inputs.source.ids,
            "inputs_embeds": inputs.source.embeds,
            "attention_mask": inputs.source.mask,
            "encoder_outputs": inputs.encoder_outputs,
        }
    given = {name: value for name, value in named.items() if value is not None} | dict(inputs.further)
    return {name: value for name, value in given.items() if name in model._accepts or name not in _NOT_EVERYWHERE}


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


def _last_layers(model: Any, outputs: Any, states: Tensor) -> tuple[Tensor, ...]:
    count = model.next_word_head.layers
    if not count:
        return ()
    hidden = outputs.decoder_hidden_states if model.config.is_encoder_decoder else outputs.hidden_states
    scale = model.config.state_scale
    last = [hidden[-1 - i][:, -states.shape[1] :] for i in range(count)]
    return tuple((layer if scale == 1.0 else layer * scale).to(states.dtype) for layer in last)


def _too_long(model: Any, sides: Sides) -> str | None:
    """What to say if it was a text beyond the model's positions that the backbone could not look up."""
    new = sides.decoder.ids.shape[1] + sides.decoder.virtual
    message = too_long(model.config.get_text_config(decoder=True), new + int(sides.past.held or 0))
    source = sides.inputs.source
    if message is None and source is not None and source.ids is not None:
        message = too_long(encoder_config(model.config), source.ids.shape[1])
    return message


def too_long(config: Any, length: int) -> str | None:
    """What to say where ``length`` places are more than a model with learned positions has; None where they fit."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or length <= limit:
        return None
    return (
        f"{length} places are more than the {limit} that the model has positions for; shorten the text, or score it in "
        "sliding windows (task 'lm' with a task.window and task.block that fit)"
    )
