"""What came in: the arguments of one forward pass, split once by whom they concern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from nextword.heads import head_spec
from nextword.model.forward.packing import TextRows, text_rows_of
from nextword.model.head_cache.history import DynamicHeadCache, HeadCache
from nextword.model.head_cache.kv_cache import LongMemory, attach_history, history_of, kv_length, new_cache
from nextword.model.head_cache.slots import PagedHeadCache, is_paged, paged_memory

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
        memory: What is remembered of the text whose windows the rows are.
        new_places: Which places of the rows go on with that text; None: all but padding.
        texts: The rows of the texts, where a row holds several.
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
    memory: LongMemory | None
    new_places: Bool[Tensor, "B T"] | None
    texts: TextRows | None
    further: Mapping[str, Any]


def inputs_of(model: Any, given: Mapping[str, Any]) -> PassInputs:
    """Splits the arguments of a forward call.

    Args:
        model: A ``NextWordModel``.
        given: Those that are given, by name, each checked by itself.

    Raises:
        ValueError: An argument that is not for such a model.
    """
    seq2seq = model.config.is_encoder_decoder
    if "shift_labels" in given and seq2seq:
        raise ValueError(
            "shift_labels: for decoder-only models; an encoder-decoder model's targets are never shifted, so give them "
            "as labels"
        )
    auxiliary = {name: given[name] for name in AUXILIARY_ARGUMENTS if name in given}
    if auxiliary and model.conditioner is None:
        raise ValueError(f"{next(iter(auxiliary))}: {NO_CONDITIONER}")
    if model.conditioner is not None:
        auxiliary["source_ids"] = given.get("source_ids")
    words = given.get("source_ids", given.get("input_ids")) if seq2seq and model.next_word_head.reads_source else None
    labels, shift_labels, use_cache = given.get("labels"), given.get("shift_labels"), given.get("use_cache")
    memory = given.get("memory")
    if memory is not None:
        _expect_windows(model, given)
    texts = text_rows_of(model, given)
    if memory is not None or texts is not None or (use_cache is None and not (labels is None and shift_labels is None)):
        use_cache = False
    named = _SEQ2SEQ if seq2seq else _CAUSAL
    return PassInputs(
        decoder=_text(given, "decoder_" if seq2seq else ""),
        position_ids=given.get("position_ids"),
        step_mask=given.get("step_mask"),
        step_ids=None if seq2seq else given.get("step_ids"),
        labels=labels,
        shift_labels=shift_labels,
        source=_text(given) if seq2seq else None,
        encoder_outputs=given.get("encoder_outputs") if seq2seq else None,
        source_ids=words,
        auxiliary=AuxiliaryInputs(**auxiliary),
        kv_cache=given.get("past_key_values", given.get(model._cache_argument)),
        use_cache=use_cache,
        memory=memory,
        new_places=given.get("new_places"),
        texts=texts,
        further={name: value for name, value in given.items() if name not in named | {model._cache_argument}},
    )


_CAUSAL = frozenset(
    {"input_ids", "inputs_embeds", "attention_mask", "position_ids", "past_key_values", "use_cache", "labels"}
    | {"shift_labels", "step_mask", "step_ids", "source_ids", "memory", "new_places", *AUXILIARY_ARGUMENTS}
)
_SEQ2SEQ = _CAUSAL | {"decoder_input_ids", "decoder_inputs_embeds", "decoder_attention_mask", "encoder_outputs"}
"""Arguments that have a field of their own."""


def _expect_windows(model: Any, given: Mapping[str, Any]) -> None:
    """Raises ValueError where the rows of this pass cannot be windows of one text."""
    head = model.next_word_head
    if model.config.is_encoder_decoder or model.conditioner is not None or not head.remembers:
        raise ValueError(
            f"memory: must be that of a decoder-only model whose head looks back, without a conditioner (head "
            f"'{head_spec(head.config)}' given); leave it out, or attach cache:long=12288"
        )
    if given.get("past_key_values", given.get(model._cache_argument)) is not None:
        raise ValueError("memory: must be given without a KV cache (both given); leave out one of the two")


def _text(given: Mapping[str, Any], side: str = "") -> TextInputs:
    return TextInputs(
        ids=given.get(f"{side}input_ids"),
        embeds=given.get(f"{side}inputs_embeds"),
        mask=given.get(f"{side}attention_mask"),
    )


# -- What earlier passes left: the KV cache, and the memory of the head that rides in it.


@dataclass(frozen=True)
class Past:
    """What came before the new tokens.

    Args:
        kv_cache: The cache that was given, or a new one where a history needs one to ride in.
        history: Where this pass adds its places; None where nothing is remembered after it.
        held: Places in the KV cache; None where it keeps no count.
        places: Those of them that belong to the text; None where that is not known on the host.
        paged: The memory of a pass of continuous batching, in place of a history.
    """

    kv_cache: Any
    history: HeadCache | None
    held: int | Tensor | None
    places: int | None
    paged: PagedHeadCache | None = None


def past_of(model: Any, inputs: PassInputs) -> Past:
    """The past of a pass: that of the given cache, or of a new one where something is to be remembered after it.

    Args:
        model: A ``NextWordModel``.
        inputs: What came in.

    Raises:
        ValueError: The cache was changed behind the head's back.
    """
    if inputs.memory is not None:
        return Past(None, inputs.memory, 0, 0)
    kv_cache = inputs.kv_cache
    if model.next_word_head.remembers and is_paged(inputs.further):
        assert inputs.decoder.ids is not None, "continuous batching gives tokens"
        return Past(None, None, None, None, paged_memory(inputs.further, inputs.decoder.ids.shape[1]))
    if kv_cache is None:
        return _new(model, inputs.use_cache)
    history, held = history_of(kv_cache), kv_length(kv_cache)
    places: int | None = None
    if isinstance(held, int) and not getattr(kv_cache, "is_compileable", True):
        places = held - (0 if history is None else history.virtual)
    if not model.carries_history:
        return Past(kv_cache, None, held, places)
    if history is None:
        limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        return Past(kv_cache, attach_history(kv_cache, limit), held, places)
    if isinstance(history.length, int) and held is not None and held != history.length + history.virtual:
        raise ValueError(
            f"the KV cache holds {held} places and the head's history {history.length}: the cache was "
            "changed behind the model's back, or filled by the bare backbone after the head had seen it"
        )
    return Past(kv_cache, history, held, places)


def _new(model: Any, use_cache: bool | None) -> Past:
    """Nothing came before; a cache is made where a history is to live on after this pass."""
    if not model.carries_history:
        return Past(None, None, 0, 0)
    config = model.config.get_text_config(decoder=True)
    wanted = getattr(config, "use_cache", True) if use_cache is None else use_cache
    if not wanted or model.training:
        return Past(None, None, 0, 0)
    if not model._supports_default_dynamic_cache():
        return Past(None, DynamicHeadCache(), 0, 0)
    if not model.config.is_encoder_decoder:
        kv_cache = new_cache(config)
        return Past(kv_cache, history_of(kv_cache), 0, 0)
    config = model.get_decoder().config  # the model's own counts the encoder's layers
    # cross-attention reads every place of the source, also where the decoder's own layers have windows (T5Gemma)
    both = EncoderDecoderCache(new_cache(config), DynamicCache())
    return Past(both, history_of(both), 0, 0)
