"""The auxiliary text of a forward pass: its checks, what is kept of it, and what it puts before the decoder's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.context import Source
from nextword.heads import head_spec
from nextword.memory.history import History, kv_length
from nextword.model.forward.decoder_inputs import expect_ids, expect_known_ids, expect_vectors, valid_places

INPUTS = ("aux_input_ids", "aux_attention_mask", "aux_states", "source_places")
"""Arguments of forward that only conditioned models take; ``source_ids`` is known to encoder-decoder models too."""

NO_CONDITIONER = (
    "this model has no conditioner, so it cannot follow an auxiliary text; attach one, such as "
    "nw.attach(model, head, conditioner='bergpt', encoder=...)"
)
"""What to say to whoever gives one all the same."""


def auxiliary_rows(model: Any, inputs: Mapping[str, Any], rows: Sequence[int]) -> dict[str, Tensor]:
    """The inputs of the auxiliary texts of some rows of a batch; empty without conditioner.

    Args:
        model: A :class:`~nextword.model.modeling.NextWordModel`.
        inputs: Arguments of its forward.
        rows: Which rows, in any order and as often as wanted.
    """
    if model.conditioner is None:
        return {}
    given = {name: inputs[name] for name in (*INPUTS, "source_ids") if inputs.get(name) is not None}
    return {name: tensor[torch.tensor(rows, device=tensor.device)] for name, tensor in given.items()}


@dataclass(frozen=True)
class Auxiliary:
    """What a pass needs of the auxiliary texts.

    Args:
        conditioner: What the conditioner keeps of them.
        source: Their words, where the head reads them.
    """

    conditioner: Mapping[str, Tensor]
    source: Source | None


def auxiliary_of(model: Any, inputs: dict[str, Any], rows: int, history: History | None) -> Auxiliary | None:
    """Takes the auxiliary text out of the inputs of a forward pass; None for a model without conditioner.

    Args:
        model: A :class:`~nextword.model.modeling.NextWordModel`.
        inputs: Arguments of its forward that are not None; those of the auxiliary text are taken out.
        rows: Sequences of the batch.
        history: Where what is made of the text is kept, or was kept by an earlier pass.

    Raises:
        ValueError: No auxiliary text for a model that needs one, one for a model that has no use for it, or one that
            does not fit.
    """
    given = {name: inputs.pop(name) for name in INPUTS if name in inputs}
    if model.conditioner is None:
        inputs.pop("source_ids", None)  # of no use without auxiliary text
        if given:
            raise ValueError(f"{next(iter(given))}: {NO_CONDITIONER}")
        return None
    if "source_ids" in inputs:
        given["source_ids"] = inputs.pop("source_ids")
    began = history is not None and history.knows_source
    expect_one_text(given)
    text = given.get("aux_states", given.get("aux_input_ids"))
    if text is None and not began:
        raise ValueError(
            "aux_input_ids: missing; this model follows an auxiliary text, so pass its tokens (aux_input_ids and "
            "aux_attention_mask, made by nw.AuxiliaryTokenizer) or its states (aux_states, made by model.encode)"
        )
    if text is not None and text.shape[0] != rows:
        raise ValueError(f"auxiliary text: {text.shape[0]} rows for {rows} sequences; every sequence needs one")

    def make() -> dict[str, Tensor]:
        assert text is not None
        return {"given": text, **_read(model, given)}

    kept = make() if history is None else history.of_source(make)
    if began and text is not None:
        _expect_the_same(kept["given"], text)
    return Auxiliary(_part(kept, "conditioner"), _source(kept))


def expect_one_text(given: Mapping[str, Any]) -> None:
    """Raises ValueError where an auxiliary text is given in two ways, or as no tensor."""
    texts = {name: given[name] for name in ("aux_input_ids", "aux_states") if given.get(name) is not None}
    if len(texts) > 1:
        raise ValueError("auxiliary text: both aux_input_ids and aux_states are given; give one of them")
    for name, text in texts.items():
        if not isinstance(text, Tensor):
            raise ValueError(f"{name}: must be a tensor (batch, places) ({type(text).__name__} given)")


def _read(model: Any, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Everything that is made of the auxiliary texts, with the name of the part that needs it."""
    states, mask = given.get("aux_states"), given.get("aux_attention_mask")
    states = model.encode(given["aux_input_ids"], mask) if states is None else states
    width = model.auxiliary_encoder.config.hidden_size
    if states.ndim != 3 or states.shape[2] != width:
        raise ValueError(
            f"aux_states: must be (batch, places, {width}), as wide as the encoder's states (shape "
            f"{tuple(states.shape)} given)"
        )
    expect_vectors("aux_states", states, ids="aux_input_ids")
    valid = valid_places("aux_attention_mask", mask, states)
    _expect_texts(valid)
    states = states.to(next(model.conditioner.parameters()).dtype)
    kept = {f"conditioner {name}": made for name, made in model.conditioner.read(states, valid).items()}
    if not model.next_word_head.reads_source:
        return kept
    ids, words, places = _words(model, given, states, valid)
    streams = model.next_word_head.source_streams(words)
    kept |= {"ids": ids, "valid": places >= 0, "states": words}
    return kept | {f"head {name}": made for name, made in streams.items()}


def _expect_texts(valid: Tensor) -> None:
    if is_torchdynamo_compiling():
        return
    empty = (~valid.any(1)).nonzero().flatten().tolist()
    if empty:
        raise ValueError(f"auxiliary text: row {empty[0]} has no token (it is padding only); leave such rows out")


def _words(model: Any, given: Mapping[str, Tensor], states: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The auxiliary text in the decoder's tokens, the encoder's state of each, and its place; -1 at padding."""
    ids, places = given.get("source_ids"), given.get("source_places")
    if ids is None or places is None:
        raise ValueError(
            f"head '{head_spec(model.next_word_head.config)}' copies words of the auxiliary text: pass source_ids and "
            "source_places beside it, made by nw.AuxiliaryTokenizer(encoder_tokenizer, tokenizer)"
        )
    ids, places = expect_ids("source_ids", ids), expect_ids("source_places", places)
    if ids.shape != places.shape or len(ids) != len(states):
        raise ValueError(
            f"source_ids and source_places: must have one shape, with {len(states)} rows (shapes {tuple(ids.shape)} "
            f"and {tuple(places.shape)} given)"
        )
    expect_known_ids("source_ids", ids, model.get_input_embeddings().weight.shape[0])
    at = places.clamp_min(0)
    looked_at = places.device.type == "cpu" and not is_torchdynamo_compiling()
    if looked_at and not (valid.gather(1, at.clamp_max(states.shape[1] - 1)) | (places < 0)).all():
        raise ValueError("source_places: a place at the padding of the auxiliary text")
    if looked_at and bool((places >= states.shape[1]).any()):
        raise ValueError(f"source_places: a place beyond the {states.shape[1]} tokens of the auxiliary text")
    words = states.gather(1, at[..., None].expand(-1, -1, states.shape[2]))
    return ids, words, places


def _expect_the_same(kept: Tensor, text: Tensor) -> None:
    """Raises ValueError where a KV cache is continued with another text; looked at on the CPU only."""
    if text.device.type != "cpu" or is_torchdynamo_compiling() or kept.dtype != text.dtype:
        return
    if not _same(kept, text):
        raise ValueError(
            "auxiliary text: the KV cache was begun with another one; start with an empty cache, or pass none"
        )


def _same(kept: Tensor, text: Tensor) -> bool:
    if kept.shape != text.shape or not text.is_floating_point():
        return torch.equal(kept, text)
    # states of the same text are rounded otherwise in a batch of another size
    difference = torch.linalg.vector_norm(kept - text, dim=(1, 2))
    return bool((difference <= torch.finfo(text.dtype).eps ** 0.5 * torch.linalg.vector_norm(kept, dim=(1, 2))).all())


def _part(kept: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    start = f"{name} "
    return {key.removeprefix(start): made for key, made in kept.items() if key.startswith(start)}


def _source(kept: Mapping[str, Tensor]) -> Source | None:
    if "ids" not in kept:
        return None
    return Source(kept["ids"], kept["valid"], kept["states"], _part(kept, "head"))


def put_in(model: Any, inputs: dict[str, Any], auxiliary: Auxiliary, history: History | None) -> int:
    """Gives the backbone what the conditioner has for it.

    Vectors that stand before the text go to the first pass; later ones are told that the cache holds them.

    Args:
        model: A conditioned model.
        inputs: Arguments of the backbone's forward; changed.
        auxiliary: What was made of the auxiliary texts.
        history: Rides in the KV cache, if there is one.

    Returns:
        How many places of this pass hold such vectors.
    """
    inputs |= model.conditioner.backbone_inputs(auxiliary.conditioner)
    count: int = model.conditioner.virtual
    if not count:
        return 0
    mask, positions, kv_cache = (inputs.get(name) for name in ("attention_mask", "position_ids", "past_key_values"))
    custom = mask is not None and (isinstance(mask, dict) or mask.ndim != 2)
    if custom or (kv_cache is not None and kv_cache.is_compileable):
        raise ValueError(
            "conditioner 'prefix': its places are not in a static cache or a custom attention mask; use the dynamic "
            "cache and a 2-D padding mask"
        )
    if mask is not None:
        inputs["attention_mask"] = torch.cat([mask.new_ones(len(mask), count), mask], 1)
    if positions is not None:
        inputs["position_ids"] = positions + count
    if kv_cache is not None and kv_length(kv_cache):
        return 0
    if history is not None:
        history.virtual = count
    before = model.conditioner.before_text(auxiliary.conditioner)
    embeds = inputs.get("inputs_embeds")
    embeds = model.get_input_embeddings()(inputs.pop("input_ids")) if embeds is None else embeds
    inputs["inputs_embeds"] = torch.cat([before.to(embeds.dtype), embeds], 1)
    if positions is not None:
        places = torch.arange(count, device=positions.device).expand(len(positions), -1)
        inputs["position_ids"] = torch.cat([places.to(positions.dtype), inputs["position_ids"]], 1)
    return count
