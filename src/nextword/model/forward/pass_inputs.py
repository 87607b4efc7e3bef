"""What came in: the arguments of one forward pass, split once by whom they concern, each checked by itself."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.heads import head_spec
from nextword.model.forward.argument_checks import (
    expect_auxiliary_states,
    expect_ids,
    expect_one_text,
    expect_positions,
    expect_source,
    expect_tokens,
)

NO_CONDITIONER = (
    "this model has no conditioner, so it cannot follow an auxiliary text; attach one, such as "
    "nw.attach(model, head, conditioner='bergpt', encoder=...)"
)
"""What to say to whoever gives one all the same."""


@dataclass(frozen=True)
class TextInputs:
    """A text for the decoder or for the encoder, as it came in.

    Args:
        ids: Its tokens (B, T).
        embeds: Their embeddings (B, T, D), instead of the ids or beside them.
        mask: Attention mask, of any kind that the backbone takes.
    """

    ids: Int[Tensor, "B T"] | None
    embeds: Float[Tensor, "B T D"] | None
    mask: Any


@dataclass(frozen=True)
class AuxiliaryInputs:
    """The auxiliary text of a conditioned model, as it came in; the names are those of forward's arguments."""

    aux_input_ids: Int[Tensor, "B A"] | None = None
    aux_attention_mask: Tensor | None = None
    aux_states: Float[Tensor, "B A E"] | None = None
    source_places: Int[Tensor, "B S"] | None = None
    source_ids: Int[Tensor, "B S"] | None = None

    @property
    def text(self) -> Tensor | None:
        """The text: its states, or its tokens; None where neither is given."""
        return self.aux_input_ids if self.aux_states is None else self.aux_states

    @property
    def arguments(self) -> dict[str, Tensor]:
        """What was given, by name, as it may be given to another pass."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: tensor for name, tensor in named.items() if tensor is not None}


AUXILIARY_ARGUMENTS = ("aux_input_ids", "aux_attention_mask", "aux_states", "source_places")
"""Arguments of forward that only conditioned models take; ``source_ids`` is known to encoder-decoder models too."""


@dataclass(frozen=True)
class PassInputs:
    """The arguments of one forward pass.

    Args:
        decoder: The decoder's new tokens.
        position_ids: Their positions.
        step_mask: Padding mask of the new tokens alone, where generation knows it.
        step_ids: Tokens behind the decoder's embeddings, where generation knows them.
        labels: Label of each of the decoder's places.
        shift_labels: Target of each place, shifted already.
        source: The encoder's text, for an encoder-decoder model.
        encoder_outputs: The encoder's outputs, where they are known already.
        source_ids: The source's tokens, for a head that reads them.
        auxiliary: The auxiliary text, for a conditioned model.
        kv_cache: What earlier passes left.
        use_cache: Whether a cache is asked for; None: as the model is set.
        further: Arguments of the backbone that mean nothing to us.
    """

    decoder: TextInputs
    position_ids: Tensor | None
    step_mask: Tensor | None
    step_ids: Tensor | None
    labels: Int[Tensor, "B T"] | None
    shift_labels: Int[Tensor, "B T"] | None
    source: TextInputs | None
    encoder_outputs: Any
    source_ids: Int[Tensor, "B E"] | None
    auxiliary: AuxiliaryInputs
    kv_cache: Any
    use_cache: bool | None
    further: Mapping[str, Any]

    @property
    def has_labels(self) -> bool:
        """Whether there is something to predict."""
        return self.labels is not None or self.shift_labels is not None

    @classmethod
    def of(cls, model: Any, arguments: Mapping[str, Any]) -> PassInputs:
        """Splits the arguments of a forward call.

        Args:
            model: A :class:`~nextword.model.modeling.NextWordModel`.
            arguments: Those of its forward, by name; None counts as not given.

        Raises:
            ValueError: No tokens, a tensor of another type or shape, or an argument that is not for such a model.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        labels = _labels(model, given)
        use_cache = given.get("use_cache")
        expect_positions(given.get("position_ids"))
        return cls(
            decoder=_decoder_text(model, given, labels.get("labels")),
            position_ids=given.get("position_ids"),
            step_mask=given.get("step_mask"),
            step_ids=None if model.config.is_encoder_decoder else given.get("step_ids"),
            labels=labels.get("labels"),
            shift_labels=labels.get("shift_labels"),
            source=_source_text(model, given),
            encoder_outputs=given.get("encoder_outputs") if model.config.is_encoder_decoder else None,
            source_ids=_source_words(model, given),
            auxiliary=_auxiliary_text(model, given),
            kv_cache=given.get("past_key_values"),
            use_cache=False if labels and use_cache is None else use_cache,
            further={name: value for name, value in given.items() if not _is_named(model, name)},
        )


_TEXT = frozenset({"input_ids", "inputs_embeds", "attention_mask"})
_SEQ2SEQ = frozenset({"encoder_outputs", *(f"decoder_{name}" for name in _TEXT)})
_NAMED = (
    _TEXT
    | {"position_ids", "past_key_values", "use_cache", "labels", "shift_labels", "step_mask", "step_ids", "source_ids"}
    | set(AUXILIARY_ARGUMENTS)
)


def _is_named(model: Any, name: str) -> bool:
    """Whether :class:`PassInputs` has a field for an argument."""
    return name in _NAMED or (name in _SEQ2SEQ and model.config.is_encoder_decoder)


def _labels(model: Any, given: Mapping[str, Any]) -> dict[str, Tensor]:
    if "shift_labels" in given and model.config.is_encoder_decoder:
        raise ValueError(
            "shift_labels: for decoder-only models; an encoder-decoder model's targets are never shifted, so give them "
            "as labels"
        )
    return {name: expect_ids(name, given[name]) for name in ("labels", "shift_labels") if name in given}


def _decoder_text(model: Any, given: Mapping[str, Any], labels: Tensor | None) -> TextInputs:
    side = "decoder_" if model.config.is_encoder_decoder else ""
    ids, embeds = given.get(f"{side}input_ids"), given.get(f"{side}inputs_embeds")
    if side and labels is not None and ids is None and embeds is None:
        ids = model.prepare_decoder_input_ids_from_labels(labels)
    words = ids if ids is not None or side else given.get("step_ids")
    if words is None and embeds is not None and model.next_word_head.reads_words and not is_torchdynamo_compiling():
        warnings.warn(
            f"{side}inputs_embeds without {side}input_ids: head '{head_spec(model.next_word_head.config)}' looks at "
            f"words, and knows none here; pass {side}input_ids beside {side}inputs_embeds. (Prompt tuning of peft "
            "passes embeddings alone: take LoRA or prefix tuning, or a head that looks at no words.)",
            stacklevel=2,
        )
    return TextInputs(expect_tokens(side, ids, embeds), embeds, given.get(f"{side}attention_mask"))


def _source_text(model: Any, given: Mapping[str, Any]) -> TextInputs | None:
    if not model.config.is_encoder_decoder:
        return None
    ids = given.get("input_ids")
    return TextInputs(
        None if ids is None else expect_source(ids), given.get("inputs_embeds"), given.get("attention_mask")
    )


def _source_words(model: Any, given: Mapping[str, Any]) -> Tensor | None:
    """The encoder's tokens, where the head reads them."""
    if not model.config.is_encoder_decoder or not model.next_word_head.reads_source:
        return None
    words = given.get("source_ids", given.get("input_ids"))
    if words is None:
        raise ValueError(
            f"head '{head_spec(model.next_word_head.config)}' reads the source's words: pass input_ids, or "
            "source_ids where encoder_outputs are given"
        )
    return expect_ids("source_ids", words)


def _auxiliary_text(model: Any, given: Mapping[str, Any]) -> AuxiliaryInputs:
    named = {name: given[name] for name in AUXILIARY_ARGUMENTS if name in given}
    if model.conditioner is None:  # source_ids are then the encoder's words, or of no use
        if named:
            raise ValueError(f"{next(iter(named))}: {NO_CONDITIONER}")
        return AuxiliaryInputs()
    expect_one_text(named)
    if "aux_states" in named:
        expect_auxiliary_states(named["aux_states"], model.auxiliary_encoder.config.hidden_size)
    if "aux_input_ids" in named:
        expect_ids("aux_input_ids", named["aux_input_ids"], vectors="aux_states")
    named |= {"source_ids": given["source_ids"]} if "source_ids" in given else {}
    words = ("source_ids", "source_places") if model.next_word_head.reads_source else ()
    return AuxiliaryInputs(**named | {name: expect_ids(name, named[name]) for name in words if name in named})
