"""Runs the backbone on a batch and returns the states for the head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.heads import head_spec
from nextword.heads.context import Source
from nextword.model.forward.forward_batch import AuxiliaryInputs, ForwardBatch
from nextword.model.forward.output_layer import OutputLayer, run_with_output_tap
from nextword.model.head_cache.kv_cache import put_head_cache_on
from nextword.runtime.pretrained import encoder_config

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class BackboneOutput:
    """The results of one run of the backbone.

    Args:
        outputs: The backbone's outputs that the caller requested, without logits.
        states: Inputs of the output layer at the new tokens (B, T, D).
        layers: Hidden states of the last decoder layers at the new tokens, times ``state_scale``: as many layers as the
            head reads, last layer first.
        source_states: Last hidden state of the encoder; None for a decoder-only model.
        output_layer: The backbone's output layer.
    """

    outputs: Any
    states: Tensor
    layers: tuple[Tensor, ...]
    source_states: Tensor | None
    output_layer: OutputLayer


def run_backbone(model: NextWordModel, batch: ForwardBatch, auxiliary: AuxiliaryStates | None) -> BackboneOutput:
    """Runs the backbone up to its output layer. Raises ValueError if the text is too long for the backbone."""
    arguments = _arguments(model, batch, auxiliary)
    head, text_config = model.next_word_head, model.config.text_config
    wanted_layers = arguments.get("output_hidden_states", getattr(text_config, "output_hidden_states", False))
    output_layer = OutputLayer(model.backbone)  # made before the states, so that its gradient is computed after theirs
    try:
        wanted = arguments | ({"output_hidden_states": True} if head.layers else {})
        outputs, states = run_with_output_tap(model.backbone, wanted)
    except IndexError as fault:
        message = _too_long(model, batch)
        if message is None:
            raise
        raise ValueError(message) from fault
    made, past = outputs.get(model._cache_argument), batch.past
    if past.head_cache is not None and past.kv_cache is None and made is not None:
        put_head_cache_on(made, past.head_cache)  # the backbone made a cache of its own class (MiniMax, xLSTM)
    states = states[:, batch.virtual :]
    shown = {name: value for name, value in outputs.items() if name != "logits"}
    if head.layers:
        shown |= {name: _selected(shown[name], wanted_layers) for name in _HIDDEN if name in shown}
    return BackboneOutput(
        outputs=type(outputs)(**shown),
        states=states,
        layers=_last_layers(model, outputs, states),
        source_states=outputs.encoder_last_hidden_state if model.config.is_encoder_decoder else None,
        output_layer=output_layer,
    )


# arguments that forward names and some backbones do not accept; all other arguments are passed to every backbone
_NOT_EVERYWHERE = frozenset(
    {"position_ids", "past_key_values", "inputs_embeds", "use_cache", "attention_mask", "decoder_attention_mask"}
)


def _arguments(model: NextWordModel, batch: ForwardBatch, auxiliary: AuxiliaryStates | None) -> dict[str, Any]:
    side, source = "decoder_" if model.config.is_encoder_decoder else "", batch.source
    ids, embeds, mask = batch.input_ids, batch.inputs_embeds, batch.attention_mask
    if model._cache_argument == "cache_params" and isinstance(mask, Tensor) and mask.ndim == 2:
        mask = mask[:, -batch.ids.shape[1] :]  # only of the new tokens: a state-space layer reads no earlier position
    if auxiliary is not None and auxiliary.before_text is not None:
        embeds = model.get_input_embeddings()(ids) if embeds is None else embeds
        ids, embeds = None, torch.cat([auxiliary.before_text.to(embeds.dtype), embeds], 1)
    named = {
        f"{side}input_ids": ids,
        f"{side}inputs_embeds": embeds,
        f"{side}attention_mask": mask,
        "position_ids": batch.position_ids,
        model._cache_argument: batch.past.kv_cache,
        "use_cache": batch.use_cache,
        **({} if auxiliary is None else auxiliary.backbone_inputs),
    }
    if source is not None:
        of_encoder = {"input_ids": source.ids, "inputs_embeds": source.embeds, "attention_mask": source.mask}
        named |= of_encoder | {"encoder_outputs": source.encoded}
    given = {name: value for name, value in named.items() if value is not None} | dict(batch.further)
    return {name: value for name, value in given.items() if name in model._accepts or name not in _NOT_EVERYWHERE}


_HIDDEN = frozenset({"hidden_states", "decoder_hidden_states", "encoder_hidden_states"})


def _selected(layers: tuple[Tensor, ...], wanted: bool | int | Sequence[int]) -> tuple[Tensor | None, ...] | None:
    """The layers that ``output_hidden_states`` requests, and None for every other layer. If it requests none: None.

    >>> [layer is None for layer in _selected((Tensor(), Tensor(), Tensor()), [0, -1])]
    [False, True, False]
    """
    if not wanted or wanted is True:
        return layers if wanted else None
    numbers = {wanted} if isinstance(wanted, int) else set(wanted)
    count = len(layers)
    return tuple(layer if {number, number - count} & numbers else None for number, layer in enumerate(layers))


def _last_layers(model: NextWordModel, outputs: Any, states: Tensor) -> tuple[Tensor, ...]:
    count = model.next_word_head.layers
    if not count:
        return ()
    hidden = outputs.decoder_hidden_states if model.config.is_encoder_decoder else outputs.hidden_states
    scale = model.state_scale
    last = [hidden[-1 - i][:, -states.shape[1] :] for i in range(count)]
    return tuple((layer if scale == 1.0 else layer * scale).to(states.dtype) for layer in last)


def _too_long(model: NextWordModel, batch: ForwardBatch) -> str | None:
    """Error message if the text was longer than the model's positions; None otherwise."""
    new, source = batch.ids.shape[1] + batch.virtual, batch.source
    message = too_long(model.config.get_text_config(decoder=True), new + int(batch.past.held or 0))
    if message is None and source is not None and source.ids is not None:
        message = too_long(encoder_config(model.config), source.ids.shape[1])
    return message


def too_long(config: Any, length: int) -> str | None:
    """Error message if ``length`` positions exceed the ``max_position_embeddings`` of ``config``; None if they fit."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or length <= limit:
        return None
    return (
        f"{length} positions are more than the {limit} that the model has; shorten the text, or score it in "
        "sliding windows (task 'lm' with a task.window and task.block that fit)"
    )


# -- The auxiliary text: its values are computed once, and are then cached next to the KV cache.


@dataclass(frozen=True)
class AuxiliaryStates:
    """The auxiliary texts in the form that a forward pass needs.

    Args:
        kept: Mapping from name to tensor, for the tensors that the conditioner caches.
        source: Tokens and states of the texts, if the head reads them; otherwise None.
        backbone_inputs: Further arguments of the backbone's forward.
        before_text: Embeddings (B, P, D) of a soft prefix that this pass puts before the text; None if there is none.
    """

    kept: Mapping[str, Tensor]
    source: Source | None
    backbone_inputs: Mapping[str, Any]
    before_text: Tensor | None


def read_auxiliary(model: NextWordModel, batch: ForwardBatch) -> AuxiliaryStates | None:
    """Encodes the auxiliary texts, or reuses states that an earlier pass cached. None if there is no conditioner.

    Raises:
        ValueError: If an auxiliary text is missing, or does not match the batch or the text of the earlier passes.
    """
    if model.conditioner is None:
        return None
    head_cache, text = batch.past.head_cache, batch.auxiliary.tokens
    began = head_cache is not None and head_cache.knows_source
    if text is None and not began:
        raise ValueError(
            "aux_input_ids: missing; this model follows an auxiliary text, so pass its tokens (aux_input_ids and "
            "aux_attention_mask, made by nw.AuxiliaryTokenizer) or its states (aux_states, made by model.encode)"
        )
    if text is not None and text.shape[0] != len(batch.ids):
        rows = len(batch.ids)
        raise ValueError(f"auxiliary text: {text.shape[0]} rows for {rows} sequences; every sequence needs one")

    def read() -> dict[str, Tensor]:
        assert text is not None
        return {"given": text, **_read(model, batch.auxiliary)}

    kept = read() if head_cache is None else head_cache.of_source(read, virtual=batch.virtual)
    if began and text is not None:
        _expect_the_same(kept["given"], text)
    of_conditioner, source = _part(kept, "conditioner"), None
    if "ids" in kept:
        source = Source(kept["ids"], kept["valid"], kept["states"], _part(kept, "head"))
    return AuxiliaryStates(
        kept=of_conditioner,
        source=source,
        backbone_inputs=model.conditioner.backbone_inputs(of_conditioner),
        before_text=model.conditioner.before_text(of_conditioner) if batch.virtual else None,
    )


def _read(model: NextWordModel, given: AuxiliaryInputs) -> dict[str, Tensor]:
    """All tensors computed from the auxiliary texts, each prefixed with the name of the component that uses it."""
    states, valid = given.aux_states, given.valid
    assert valid is not None
    if states is None:
        states = model.encode(given.aux_input_ids, given.aux_attention_mask)
    _expect_texts(valid)
    states = states.to(next(model.conditioner.parameters()).dtype)
    kept = {f"conditioner {name}": made for name, made in model.conditioner.read(states, valid).items()}
    if not model.next_word_head.reads_source:
        return kept
    ids, words, positions = _words(model, given, states, valid)
    streams = model.next_word_head.source_streams(words)
    kept |= {"ids": ids, "valid": positions >= 0, "states": words}
    return kept | {f"head {name}": made for name, made in streams.items()}


def _expect_texts(valid: Tensor) -> None:
    if valid.device.type != "cpu" or is_torchdynamo_compiling():  # the check would wait for the device in every step
        return
    empty = (~valid.any(1)).nonzero().flatten().tolist()
    if empty:
        raise ValueError(f"auxiliary text: row {empty[0]} has no token (it is padding only); leave such rows out")


def _words(
    model: NextWordModel, given: AuxiliaryInputs, states: Tensor, valid: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The auxiliary text in the decoder's tokens, with the encoder state and position of each token; -1 at padding."""
    ids, positions = given.source_ids, given.source_positions
    if ids is None or positions is None:
        raise ValueError(
            f"head '{head_spec(model.next_word_head.config)}' copies tokens of the auxiliary text: pass source_ids and "
            "source_positions too, made by nw.AuxiliaryTokenizer(encoder_tokenizer, tokenizer)"
        )
    if ids.shape != positions.shape or len(ids) != len(states):
        raise ValueError(
            f"source_ids and source_positions: must have one shape, with {len(states)} rows (shapes {tuple(ids.shape)} "
            f"and {tuple(positions.shape)} given)"
        )
    at = positions.clamp_min(0)
    looked_at = positions.device.type == "cpu" and not is_torchdynamo_compiling()
    if looked_at and not (valid.gather(1, at.clamp_max(states.shape[1] - 1)) | (positions < 0)).all():
        raise ValueError("source_positions: a position at the padding of the auxiliary text")
    if looked_at and bool((positions >= states.shape[1]).any()):
        raise ValueError(f"source_positions: a position beyond the {states.shape[1]} tokens of the auxiliary text")
    words = states.gather(1, at[..., None].expand(-1, -1, states.shape[2]))
    return ids, words, positions


def _expect_the_same(kept: Tensor, text: Tensor) -> None:
    # a KV cache must not be continued with another text; this is checked only on the CPU
    if text.device.type != "cpu" or is_torchdynamo_compiling() or kept.dtype != text.dtype:
        return
    if not _same(kept, text):
        raise ValueError(
            "auxiliary text: the KV cache was begun with another one; start with an empty cache, or pass none"
        )


def _same(kept: Tensor, text: Tensor) -> bool:
    if kept.shape != text.shape or not text.is_floating_point():
        return torch.equal(kept, text)
    # the states of one text are rounded differently in batches of different sizes
    difference = torch.linalg.vector_norm(kept - text, dim=(1, 2))
    return bool((difference <= torch.finfo(text.dtype).eps ** 0.5 * torch.linalg.vector_norm(kept, dim=(1, 2))).all())


def _part(kept: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    start = f"{name} "
    return {key.removeprefix(start): made for key, made in kept.items() if key.startswith(start)}


# -- The loss of a backbone's routers, which distributes the tokens evenly over the experts.

# router terms in a backbone's outputs, and the names of their coefficients in the backbone
_TERMS = {
    "aux_loss": ("router_aux_loss_coef", "aux_loss_coef"),
    "encoder_aux_loss": ("router_aux_loss_coef",),
    "decoder_aux_loss": ("router_aux_loss_coef",),
    "encoder_z_loss": ("router_z_loss_coef",),
    "decoder_z_loss": ("router_z_loss_coef",),
}


def router_loss(backbone: Any, outputs: Any) -> Tensor | None:
    """The router loss that a backbone adds with ``output_router_logits``; None without this argument.

    A backbone adds the router loss itself only if it gets labels. Here it gets none, because the head computes the loss
    of the tokens. NLLB-MoE computes the router terms from labels, so it adds nothing here.
    """
    terms = {name: outputs.get(name) for name in _TERMS}
    weighted = [_coefficient(backbone, name) * term for name, term in terms.items() if isinstance(term, Tensor)]
    return sum(weighted[1:], start=weighted[0]) if weighted else None


def _coefficient(backbone: Any, term: str) -> float:
    for owner in (backbone, backbone.config.get_text_config(decoder=True)):
        for name in _TERMS[term]:
            if isinstance(found := getattr(owner, name, None), int | float):
                return found
    raise AttributeError(f"{type(backbone).__name__} gives {term}, and no {' or '.join(_TERMS[term])} for it")
