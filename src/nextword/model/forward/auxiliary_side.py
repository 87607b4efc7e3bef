"""The auxiliary text's side of a pass: what is made of the text once, and kept beside the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.heads import head_spec
from nextword.heads.context import Source
from nextword.model.forward.padding_and_targets import Sides
from nextword.model.forward.pass_inputs import AuxiliaryInputs


@dataclass(frozen=True)
class AuxiliarySide:
    """What a pass needs of the auxiliary texts.

    Args:
        kept: What the conditioner keeps of them.
        source: Their words, where the head reads them.
        backbone_inputs: Further arguments of the backbone's forward.
        before_text: Embeddings (B, P, D) at this pass's virtual places; None where it has none.
    """

    kept: Mapping[str, Tensor]
    source: Source | None
    backbone_inputs: Mapping[str, Any]
    before_text: Tensor | None


def auxiliary_side(model: Any, sides: Sides) -> AuxiliarySide | None:
    """Reads the auxiliary texts, or takes what an earlier pass kept of them; None for a model without conditioner.

    Args:
        model: A ``NextWordModel``.
        sides: Those of the pass.

    Raises:
        ValueError: No auxiliary text for a model that needs one, or one that does not fit.
    """
    if model.conditioner is None:
        return None
    history, text, rows = sides.past.history, sides.inputs.auxiliary.text, len(sides.decoder.ids)
    began = history is not None and history.knows_source
    if text is None and not began:
        raise ValueError(
            "aux_input_ids: missing; this model follows an auxiliary text, so pass its tokens (aux_input_ids and "
            "aux_attention_mask, made by nw.AuxiliaryTokenizer) or its states (aux_states, made by model.encode)"
        )
    if text is not None and text.shape[0] != rows:
        raise ValueError(f"auxiliary text: {text.shape[0]} rows for {rows} sequences; every sequence needs one")

    def read() -> dict[str, Tensor]:
        assert text is not None
        return {"given": text, **_read(model, sides)}

    kept = read() if history is None else history.of_source(read)
    if began and text is not None:
        _expect_the_same(kept["given"], text)
    of_conditioner, virtual = _part(kept, "conditioner"), sides.decoder.virtual
    if virtual and history is not None:
        history.virtual = virtual
    return AuxiliarySide(
        kept=of_conditioner,
        source=_source(kept),
        backbone_inputs=model.conditioner.backbone_inputs(of_conditioner),
        before_text=model.conditioner.before_text(of_conditioner) if virtual else None,
    )


def _read(model: Any, sides: Sides) -> dict[str, Tensor]:
    """Everything that is made of the auxiliary texts, with the name of the part that needs it."""
    given, valid = sides.inputs.auxiliary, sides.auxiliary_valid
    assert valid is not None
    states = given.aux_states
    if states is None:
        states = model.encode(given.aux_input_ids, given.aux_attention_mask)
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


def _words(model: Any, given: AuxiliaryInputs, states: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The auxiliary text in the decoder's tokens, the encoder's state of each, and its place; -1 at padding."""
    ids, places = given.source_ids, given.source_places
    if ids is None or places is None:
        raise ValueError(
            f"head '{head_spec(model.next_word_head.config)}' copies words of the auxiliary text: pass source_ids and "
            "source_places beside it, made by nw.AuxiliaryTokenizer(encoder_tokenizer, tokenizer)"
        )
    if ids.shape != places.shape or len(ids) != len(states):
        raise ValueError(
            f"source_ids and source_places: must have one shape, with {len(states)} rows (shapes {tuple(ids.shape)} "
            f"and {tuple(places.shape)} given)"
        )
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
