"""The batch of one forward pass: inputs, positions of the tokens, earlier tokens, and targets.

Only this module decides what is padding; all later steps read ``valid``, ``position_ids`` and ``targets``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.functional.padding import IGNORED_LABEL
from nextword.heads import head_spec
from nextword.model.forward.argument_checks import check_arguments, expect_known_ids
from nextword.model.forward.output_layer import vocabulary_size
from nextword.model.forward.packing import TextRows, text_rows_of
from nextword.model.head_cache.head_cache import DynamicHeadCache, HeadCache
from nextword.model.head_cache.kv_cache import LongMemory, attach_head_cache, head_cache_of, kv_length, new_cache
from nextword.model.head_cache.slots import PagedHeadCache, is_paged, paged_memory

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel

NO_CONDITIONER = (
    "this model has no conditioner, so it cannot follow an auxiliary text; attach one, such as "
    "nw.attach(model, head, conditioner='bergpt', encoder=...)"
)

AUXILIARY_ARGUMENTS = ("aux_input_ids", "aux_attention_mask", "aux_states", "source_positions")
"""Arguments of forward that only conditioned models have. (``source_ids`` is also for encoder-decoder models.)"""


@dataclass(frozen=True)
class SourceText:
    """The text for the encoder of an encoder-decoder model.

    Args:
        ids: Tokens (B, E), as given.
        embeds: Embeddings of the tokens, instead of the ids or in addition.
        mask: Attention mask of any kind that the backbone accepts.
        encoded: The encoder's outputs, if already computed.
        words: Tokens for a head that reads them; None for other heads.
        valid: False at padding; None if ``ids``, ``embeds`` and ``words`` are all None.
    """

    ids: Int[Tensor, "B E"] | None
    embeds: Float[Tensor, "B E D"] | None
    mask: Any
    encoded: Any
    words: Int[Tensor, "B E"] | None
    valid: Bool[Tensor, "B E"] | None


@dataclass(frozen=True)
class AuxiliaryInputs:
    """The auxiliary text of a conditioned model. The attributes have the names of the arguments of forward.

    ``valid`` is False at padding, and None if no text is given.
    """

    aux_input_ids: Int[Tensor, "B A"] | None = None
    aux_attention_mask: Tensor | None = None
    aux_states: Float[Tensor, "B A E"] | None = None
    source_positions: Int[Tensor, "B S"] | None = None
    source_ids: Int[Tensor, "B S"] | None = None
    valid: Bool[Tensor, "B A"] | None = None

    @property
    def tokens(self) -> Tensor | None:
        """The text in the form that was given: states or tokens; None if neither."""
        return self.aux_input_ids if self.aux_states is None else self.aux_states

    @property
    def arguments(self) -> dict[str, Tensor]:
        """Mapping from the names of the given arguments to their tensors, for another call of forward."""
        named = {name: getattr(self, name) for name in (*AUXILIARY_ARGUMENTS, "source_ids")}
        return {name: tensor for name, tensor in named.items() if tensor is not None}


@dataclass(frozen=True)
class Past:
    """Caches from earlier passes.

    Args:
        kv_cache: The given KV cache; a new one if none is given and a head cache must be kept after the pass.
        head_cache: Head cache to which this pass adds its positions; None if no values are kept after the pass.
        held: Number of positions in the KV cache; None if the cache does not count them.
        of_text: Number of positions in the KV cache that belong to the text; None if it is unknown on the host.
        paged: Head cache of a pass of continuous batching, instead of ``head_cache``.
    """

    kv_cache: Any = None
    head_cache: HeadCache | None = None
    held: int | Tensor | None = 0
    of_text: int | None = 0
    paged: PagedHeadCache | None = None


@dataclass(frozen=True)
class ForwardBatch:
    """All inputs of a pass, before the backbone runs.

    Args:
        ids: The decoder's new tokens; -1 if only embeddings are given.
        valid: False at padding.
        labels: Label at each position, -100 at padding; None: not given.
        targets: Label that each position predicts, -100 if it predicts none; None: no labels were given.
        input_ids: Token ids passed to the backbone.
        inputs_embeds: Embeddings passed to the backbone, instead of the ids or in addition.
        attention_mask: The mask for the backbone.
        position_ids: The position ids for the backbone; None: not given.
        virtual: Number of positions of a soft prefix that this pass puts before the tokens; ``attention_mask`` and
            ``position_ids`` include them.
        source: The encoder's text; None for a decoder-only model.
        auxiliary: The auxiliary text of a conditioned model.
        past: Caches from earlier passes.
        use_cache: Whether a KV cache is requested; None: as in the model's configuration.
        new_positions: If rows are windows of one text, True for positions that were not in earlier windows. None if
            rows are separate texts.
        texts: If rows hold several texts, the row and index to which each position is moved; None: one text per row.
        further: Other arguments, passed to the backbone unchanged.
    """

    ids: Int[Tensor, "B T"]
    valid: Bool[Tensor, "B T"]
    labels: Int[Tensor, "B T"] | None
    targets: Int[Tensor, "B T"] | None
    input_ids: Int[Tensor, "B T"] | None
    inputs_embeds: Float[Tensor, "B T D"] | None
    attention_mask: Any
    position_ids: Tensor | None
    virtual: int
    source: SourceText | None
    auxiliary: AuxiliaryInputs
    past: Past
    use_cache: bool | None
    new_positions: Bool[Tensor, "B T"] | None
    texts: TextRows | None
    further: Mapping[str, Any]


def forward_batch(model: NextWordModel, arguments: Mapping[str, Any]) -> ForwardBatch:
    """Makes the batch from ``arguments``, a mapping from argument name of ``forward`` to value (None: not given).

    Raises:
        ValueError: If an argument is not for this kind of model, a tensor has a wrong type or shape, mask or labels do
            not fit the tokens, a token is outside the vocabulary, the head's cache does not support these masks, or the
            KV cache was changed without the head's cache.
    """
    given = check_arguments(model, arguments)
    _expect_for_such_a_model(model, given)
    seq2seq, memory, texts = model.config.is_encoder_decoder, given.get("memory"), text_rows_of(model, given)
    use_cache, labelled = given.get("use_cache"), "labels" in given or "shift_labels" in given
    if memory is not None or texts is not None or (use_cache is None and labelled):
        use_cache = False
    side = "decoder_" if seq2seq else ""
    input_ids, embeds, mask = (given.get(f"{side}{name}") for name in ("input_ids", "inputs_embeds", "attention_mask"))
    named = (_SEQ2SEQ if seq2seq else _CAUSAL) | {model._cache_argument}
    further = {name: value for name, value in given.items() if name not in named}
    past = _past_of(model, given, use_cache)

    ids = given.get("step_ids") if input_ids is None and not seq2seq else input_ids
    if ids is None:
        assert embeds is not None
        ids = torch.full(embeds.shape[:2], -1, dtype=torch.long, device=embeds.device)
    if "step_mask" in given:  # only for the new tokens; the mask itself may be four-dimensional, or several masks
        new = given["step_mask"] if embeds is None else _widened(given["step_mask"], embeds.shape[1])
        valid = valid_positions(f"{side}attention_mask", new, ids)
    else:
        valid = valid_positions(f"{side}attention_mask", mask, ids, past.of_text)
    labels, targets = _labels_and_targets(given, valid, texts, shifts=not seq2seq)
    virtual, attention_mask, position_ids = _behind_virtual_positions(model, mask, given.get("position_ids"), past)
    if model.next_word_head.remembers and past.paged is None and "step_mask" not in given:
        _expect_padding_mask(mask)
    new_positions = None
    if memory is not None:
        new_positions = valid & given["new_positions"] if "new_positions" in given else valid
    batch = ForwardBatch(
        ids=ids,
        valid=valid,
        labels=labels,
        targets=targets,
        input_ids=input_ids,
        inputs_embeds=embeds,
        attention_mask=attention_mask,
        position_ids=position_ids,
        virtual=virtual,
        source=_source(model, given, len(ids)) if seq2seq else None,
        auxiliary=AuxiliaryInputs() if model.conditioner is None else _auxiliary(given),
        past=past,
        use_cache=use_cache,
        new_positions=new_positions,
        texts=texts,
        further=further,
    )
    _expect_vocabulary(model, batch, given, side)
    return batch


# arguments that this module reads; all other arguments are passed to the backbone unchanged
_CAUSAL = frozenset(
    {"input_ids", "inputs_embeds", "attention_mask", "position_ids", "past_key_values", "use_cache", "labels"}
    | {"shift_labels", "step_mask", "step_ids", "source_ids", "memory", "new_positions", *AUXILIARY_ARGUMENTS}
)
_SEQ2SEQ = _CAUSAL | {"decoder_input_ids", "decoder_inputs_embeds", "decoder_attention_mask", "encoder_outputs"}


def _expect_for_such_a_model(model: NextWordModel, given: Mapping[str, Any]) -> None:
    head, seq2seq = model.next_word_head, model.config.is_encoder_decoder
    if "shift_labels" in given and seq2seq:
        raise ValueError(
            "shift_labels: for decoder-only models; an encoder-decoder model's targets are never shifted, so give them "
            "as labels"
        )
    auxiliary = next((name for name in AUXILIARY_ARGUMENTS if name in given), None)
    if auxiliary is not None and model.conditioner is None:
        raise ValueError(f"{auxiliary}: {NO_CONDITIONER}")
    if "memory" not in given:
        return
    if seq2seq or model.conditioner is not None or not head.remembers:
        raise ValueError(
            f"memory: must be that of a decoder-only model whose head looks back, without a conditioner (head "
            f"'{head_spec(head.config)}' given); leave it out, or attach cache:long=12288"
        )
    if given.get("past_key_values", given.get(model._cache_argument)) is not None:
        raise ValueError("memory: must be given without a KV cache (both given); leave out one of the two")


def _expect_vocabulary(model: NextWordModel, batch: ForwardBatch, given: Mapping[str, Any], side: str) -> None:
    source, size = batch.source, model.get_input_embeddings().weight.shape[0]
    if batch.input_ids is not None or "step_ids" in given:
        expect_known_ids(f"{side}input_ids", batch.ids, size)
    if source is not None and source.ids is not None and source.encoded is None:
        expect_known_ids("input_ids", source.ids, size)
    words = batch.auxiliary.source_ids if source is None else source.words
    if words is not None and model.next_word_head.reads_source:
        expect_known_ids("source_ids", words, size)
    for name, labels in (("labels", batch.labels), ("shift_labels", batch.targets)):
        if name in given and labels is not None:
            expect_known_ids(name, labels, vocabulary_size(model.backbone), ignored=IGNORED_LABEL)


# -- The result of earlier passes: the KV cache, and the head cache that is attached to it.


def _past_of(model: NextWordModel, given: Mapping[str, Any], use_cache: bool | None) -> Past:
    # the caches of the given KV cache, or new caches if values must be kept after the pass
    memory: LongMemory | None = given.get("memory")
    if memory is not None:
        return Past(head_cache=memory)
    kv_cache = given.get("past_key_values", given.get(model._cache_argument))
    if model.next_word_head.remembers and is_paged(given):
        return Past(held=None, of_text=None, paged=paged_memory(given, given["input_ids"].shape[1]))
    if kv_cache is None:
        return _new_past(model, use_cache)
    head_cache, held = head_cache_of(kv_cache), kv_length(kv_cache)
    of_text: int | None = None
    if isinstance(held, int) and not getattr(kv_cache, "is_compileable", True):
        of_text = held - (0 if head_cache is None else head_cache.virtual)
    if not model.carries_head_cache:
        return Past(kv_cache, None, held, of_text)
    if head_cache is None:
        limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        return Past(kv_cache, attach_head_cache(kv_cache, limit), held, of_text)
    if isinstance(head_cache.length, int) and held is not None and held != head_cache.length + head_cache.virtual:
        raise ValueError(
            f"the KV cache holds {held} positions and the head's cache {head_cache.length}: the KV cache was "
            "changed by other code, or filled by the backbone without the head; start with a new cache"
        )
    return Past(kv_cache, head_cache, held, of_text)


def _new_past(model: NextWordModel, use_cache: bool | None) -> Past:
    # there was no earlier pass; a cache is made if a head cache must be kept after this pass
    config = model.config.get_text_config(decoder=True)
    wanted = getattr(config, "use_cache", True) if use_cache is None else use_cache
    if not (model.carries_head_cache and wanted) or model.training:
        return Past()
    if not model._supports_default_dynamic_cache():
        return Past(head_cache=DynamicHeadCache())
    if not model.config.is_encoder_decoder:
        kv_cache = new_cache(config)
        return Past(kv_cache, head_cache_of(kv_cache))
    config = model.get_decoder().config  # the model's configuration counts the layers of the encoder
    # cross-attention reads every position of the source, even if the decoder's other layers have windows (T5Gemma)
    both = EncoderDecoderCache(new_cache(config), DynamicCache())
    return Past(both, head_cache_of(both))


# -- Padding, and the target of each position.


def valid_positions(name: str, mask: Any, tokens: Tensor, past: int | None = 0) -> Bool[Tensor, "B T"]:
    """A mask of the new tokens: True at tokens, False at padding.

    Args:
        name: Name of the mask, for messages.
        mask: 2-D attention mask, including the positions in the KV cache. Other masks (4-D, a dictionary, None) do not
            define padding, so all tokens are valid.
        tokens: New tokens (B, T) or their embeddings (B, T, D).
        past: Number of positions in the KV cache; None if unknown.

    Raises:
        ValueError: If the shape of ``mask`` does not fit ``tokens``, or (checked only on the CPU) a value is negative.
    """
    rows, positions = tokens.shape[:2]
    if isinstance(mask, list | tuple) or (isinstance(mask, Tensor) and mask.ndim < 2):
        given = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"{name}: must be a tensor (batch, positions), 1 for tokens and 0 for padding ({given} given)")
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return torch.ones((rows, positions), dtype=torch.bool, device=tokens.device)
    fits = mask.shape[1] >= positions if past is None else mask.shape[1] == positions + past
    if len(mask) != rows or not fits:
        held = f", {past} positions in the KV cache and {positions} new ones" if past else ""
        raise ValueError(f"{name}: must be ({rows}, {positions + (past or 0)}){held} (shape {tuple(mask.shape)} given)")
    if mask.device.type == "cpu" and not is_torchdynamo_compiling() and bool((mask < 0).any()):
        raise ValueError(
            f"{name}: {mask.min().item():g} found; give 1 for tokens and 0 for padding. A mask that is added to "
            "attention scores has four dimensions"
        )
    return mask[:, -positions:].bool()


def step_mask(mask: Tensor, positions: int) -> Tensor:
    """Returns the padding mask of the last ``positions`` tokens, cut from ``mask``, that of the whole text (B, S)."""
    # contiguous, because the stride of a view would grow in every step, and each new stride compiles a new graph
    return mask[:, -positions:].clone(memory_format=torch.contiguous_format)


def _widened(mask: Tensor, positions: int) -> Tensor:
    # peft (prompt tuning) puts vectors before the new tokens after their mask was made; the mask gets as many ones
    missing = positions - mask.shape[1]
    return nn.functional.pad(mask, (missing, 0), value=1) if missing > 0 else mask


def _expect_padding_mask(mask: Any) -> None:
    if mask is not None and getattr(mask, "ndim", None) != 2:
        raise ValueError(
            "this head reads earlier positions and does not support a custom attention mask: pass the 2-D padding "
            "mask (batch, positions)"
        )


def _labels_and_targets(
    given: Mapping[str, Any], valid: Bool[Tensor, "B T"], texts: TextRows | None, *, shifts: bool
) -> tuple[Tensor | None, Tensor | None]:
    """The label and the target of each position. Without labels, both are None."""
    fitted: dict[str, Tensor] = {}
    for name in ("labels", "shift_labels"):
        if name in given:
            if given[name].shape != valid.shape:
                shape, found = tuple(valid.shape), tuple(given[name].shape)
                raise ValueError(f"{name}: must be as the tokens are, {shape} (shape {found} given)")
            fitted[name] = given[name].masked_fill(~valid, IGNORED_LABEL)
    labels, targets = fitted.get("labels"), fitted.get("shift_labels")
    if labels is None:
        return (None if targets is None else nn.functional.pad(targets[:, :-1], (1, 0), value=IGNORED_LABEL)), targets
    if not shifts:
        return labels, labels
    if targets is None:
        # The state at a position predicts the next token. Padding has no state that predicts, and no position predicts
        # the first token of a text.
        counts = valid if texts is None else valid & ~texts.ends
        targets = nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED_LABEL).masked_fill(~counts, IGNORED_LABEL)
    return labels, targets


def _behind_virtual_positions(
    model: NextWordModel, mask: Any, positions: Tensor | None, past: Past
) -> tuple[int, Any, Tensor | None]:
    """Number of virtual positions that a conditioner puts before the text, with the resulting mask and position ids."""
    # only the first pass has these positions; later passes find them in the cache
    count: int = 0 if model.conditioner is None else model.conditioner.virtual
    if not count:
        return 0, mask, positions
    custom = mask is not None and (isinstance(mask, dict) or mask.ndim != 2)
    if custom or (past.kv_cache is not None and past.kv_cache.is_compileable):
        raise ValueError(
            "conditioner 'prefix': its positions are not in a static cache or a custom attention mask; use the dynamic "
            "cache and a 2-D padding mask"
        )
    if mask is not None:
        mask = torch.cat([mask.new_ones(len(mask), count), mask], 1)
    virtual = 0 if past.held else count
    if positions is not None:
        before = torch.arange(virtual, device=positions.device).expand(len(positions), -1)
        positions = torch.cat([before.to(positions.dtype), positions + count], 1)
    return virtual, mask, positions


def _auxiliary(given: Mapping[str, Any]) -> AuxiliaryInputs:
    text = AuxiliaryInputs(**{name: given[name] for name in (*AUXILIARY_ARGUMENTS, "source_ids") if name in given})
    if text.tokens is None:
        return text
    return replace(text, valid=valid_positions("aux_attention_mask", text.aux_attention_mask, text.tokens))


def _source(model: NextWordModel, given: Mapping[str, Any], rows: int) -> SourceText:
    """The encoder's text for a decoder batch of ``rows`` rows."""
    ids, embeds, mask, encoded = (
        given.get(name) for name in ("input_ids", "inputs_embeds", "attention_mask", "encoder_outputs")
    )
    words = given.get("source_ids", ids) if model.next_word_head.reads_source else None
    tokens = embeds if ids is None else ids
    states = tokens if encoded is None else encoded[0]
    if states is not None and len(states) != rows:
        raise ValueError(f"source: {len(states)} rows for {rows} of the decoder; each needs a source of its own")
    if words is not None and states is not None and words.shape != states.shape[:2]:
        raise ValueError(
            f"source_ids: must have one token for each of the encoder's states, {tuple(states.shape[:2])} (shape "
            f"{tuple(words.shape)} given)"
        )
    if words is not None and mask is not None and getattr(mask, "ndim", 2) != 2:
        raise ValueError("this head reads the source's tokens: pass the source's 2-D padding mask (batch, positions)")
    looked_at = words if tokens is None else tokens
    valid = None if looked_at is None else valid_positions("attention_mask", mask, looked_at)
    return SourceText(ids, embeds, mask, encoded, words, valid)
