"""Checks type, shape and size of each argument, so that an error names the argument before torch raises its own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.heads import head_spec

if TYPE_CHECKING:
    from nextword.heads import Head
    from nextword.model.modeling import NextWordModel

_WHOLE = (torch.int64, torch.int32)
OLD_NAMES = {"source_places": "source_positions", "new_places": "new_positions"}  # old and new names of arguments
# each argument for ids, and the argument that takes vectors instead
_VECTORS = {"input_ids": "inputs_embeds", "decoder_input_ids": "decoder_inputs_embeds", "aux_input_ids": "aux_states"}


def check_arguments(model: NextWordModel, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Checks ``arguments`` of ``forward`` that are not None. Returns a mapping from name to value, ids as int64.

    If an encoder-decoder model gets labels but no decoder tokens, ``decoder_input_ids`` are made from the labels.

    Raises:
        ValueError: If there are no tokens, or a tensor has a wrong type or shape.
    """
    seq2seq, head = model.config.is_encoder_decoder, model.next_word_head
    given = {OLD_NAMES.get(name, name): value for name, value in arguments.items() if value is not None}
    side = "decoder_" if seq2seq else ""
    names = ["labels", "shift_labels", "input_ids", f"{side}input_ids"]
    names += ["aux_input_ids"] if model.conditioner is not None else []
    names += ["source_ids", "source_positions"] if "source_ids" in given and head.reads_source else []
    ids = {name: expect_ids(name, given[name], vectors=_VECTORS.get(name)) for name in names if name in given}
    if seq2seq and "labels" in ids and not {"decoder_input_ids", "decoder_inputs_embeds"} & given.keys():
        ids |= {"decoder_input_ids": model.prepare_decoder_input_ids_from_labels(ids["labels"])}
    given |= ids
    expect_positions(given.get("position_ids"))
    _expect_tokens(side, given)
    has_words = bool({f"{side}input_ids", "step_ids"} & given.keys())
    if not has_words and head.reads_words and not is_torchdynamo_compiling():
        _warn_of_unknown_words(side, head_spec(head.config))
    if seq2seq:
        _expect_source(head, given)
    if "new_positions" in given:
        expect_chosen(given["new_positions"], ids["input_ids"].shape, "new_positions")
    if model.conditioner is not None:
        expect_one_text(given)
        if "aux_states" in given:
            _expect_auxiliary_states(given["aux_states"], model.auxiliary_encoder.config.hidden_size)
    return given


def _expect_tokens(side: str, given: Mapping[str, Any]) -> None:
    # the decoder must have tokens; ``side`` is the prefix of the decoder's argument names
    ids, embeds = given.get(f"{side}input_ids"), given.get(f"{side}inputs_embeds")
    if ids is None and embeds is None:
        raise ValueError("no tokens: pass input_ids (for an encoder-decoder model decoder_input_ids or labels)")
    if embeds is not None:
        expect_vectors(f"{side}inputs_embeds", embeds, ids=f"{side}input_ids")
    tokens: Any = embeds if ids is None else ids
    if tokens.shape[0] == 0:
        raise ValueError("empty batch: at least one row is needed")
    if tokens.shape[1] == 0:
        raise ValueError("empty prompt: at least one token is needed; start with the model's bos token")


def _warn_of_unknown_words(side: str, spec: str) -> None:
    warnings.warn(
        f"{side}inputs_embeds without {side}input_ids: head '{spec}' reads tokens, and has none here; also pass "
        f"{side}input_ids. (Prompt tuning of peft passes embeddings alone: take LoRA or "
        "prefix tuning, or a head that does not read tokens.)",
        stacklevel=2,
    )


def _expect_source(head: Head, given: Mapping[str, Any]) -> None:
    # the encoder's text must not be empty, and must be given as tokens if the head reads them
    ids = given.get("input_ids")
    if ids is not None:
        expect_not_empty(ids)
    elif "source_ids" not in given and head.reads_source:
        raise ValueError(
            f"head '{head_spec(head.config)}' reads the source's tokens: pass input_ids, or source_ids if "
            "encoder_outputs are given"
        )


def expect_not_empty(source: Tensor) -> None:
    """Raises ValueError if ``source``, the text for an encoder, has no token."""
    if source.numel() == 0:
        raise ValueError("empty source: at least one token is needed")


def expect_ids(name: str, given: Any, *, vectors: str | None = None) -> Int[Tensor, "B T"]:
    """Returns ``given`` as int64. Raises ValueError if it is not a tensor of integers of shape (batch, positions).

    The message contains ``name``, the name of this argument, and ``vectors``, that of the argument for embeddings.
    """
    if not isinstance(given, Tensor):
        raise ValueError(f"{name}: must be a tensor of ids (batch, positions) ({type(given).__name__} given)")
    if given.dtype not in _WHOLE:
        hint = f"; vectors go to {vectors}" if vectors is not None and given.is_floating_point() else ""
        raise ValueError(f"{name}: must be whole numbers, torch.int64 or torch.int32 ({given.dtype} given){hint}")
    if given.ndim != 2:
        hint = f"; add {name}[None] for one row" if given.ndim == 1 else ""
        raise ValueError(f"{name}: must be (batch, positions) (shape {tuple(given.shape)} given){hint}")
    return given.long()  # an embedding layer also accepts int32


def expect_vectors(name: str, given: Any, *, ids: str) -> None:
    """Raises ValueError if ``given`` is not a floating-point tensor of shape (batch, positions, width).

    The message contains ``name``, the name of this argument, and ``ids``, that of the argument for token ids.
    """
    if not isinstance(given, Tensor):
        raise ValueError(f"{name}: must be a tensor (batch, positions, width) ({type(given).__name__} given)")
    if not given.is_floating_point():
        raise ValueError(f"{name}: must be vectors ({given.dtype} given); ids go to {ids}")
    if given.ndim != 3:
        raise ValueError(f"{name}: must be (batch, positions, width) (shape {tuple(given.shape)} given)")


def expect_one_text(given: Mapping[str, Any]) -> None:
    """Raises ValueError if the auxiliary text is given both as tokens and as states, or is not a tensor."""
    texts = {name: given[name] for name in ("aux_input_ids", "aux_states") if given.get(name) is not None}
    if len(texts) > 1:
        raise ValueError("auxiliary text: both aux_input_ids and aux_states are given; give one of them")
    for name, text in texts.items():
        if not isinstance(text, Tensor):
            raise ValueError(f"{name}: must be a tensor (batch, positions) ({type(text).__name__} given)")


def _expect_auxiliary_states(states: Tensor, width: int) -> None:
    if states.ndim != 3 or states.shape[2] != width:
        raise ValueError(
            f"aux_states: must be (batch, positions, {width}), as wide as the encoder's states (shape "
            f"{tuple(states.shape)} given)"
        )
    expect_vectors("aux_states", states, ids="aux_input_ids")


def expect_positions(position_ids: Any) -> None:
    """Raises ValueError if ``position_ids`` is neither None nor a tensor of integers."""
    if position_ids is not None and (not isinstance(position_ids, Tensor) or position_ids.dtype not in _WHOLE):
        given = position_ids.dtype if isinstance(position_ids, Tensor) else type(position_ids).__name__
        raise ValueError(f"position_ids: must be a tensor of whole numbers ({given} given)")


def expect_chosen(positions: Any, shape: torch.Size, name: str = "positions") -> None:
    """Raises ValueError, with the argument's ``name``, if ``positions`` are not a boolean mask of this ``shape``."""
    given = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
    if given is not torch.bool:
        raise ValueError(f"{name}: must be a mask of torch.bool, True at those to keep ({given} given)")
    if positions.shape != shape:
        raise ValueError(f"{name}: must be {tuple(shape)} (shape {tuple(positions.shape)} given)")


def expect_known_ids(name: str, ids: Tensor, size: int, *, ignored: int | None = None) -> None:
    """Raises ValueError if one of ``ids`` is neither 0 to ``size`` - 1 nor ``ignored``; checks only on the CPU."""
    # on another device the check would wait for the device in every step
    if ids.device.type != "cpu" or is_torchdynamo_compiling() or ids.numel() == 0:
        return
    low, high = ids.aminmax()
    if low >= 0 and high < size:
        return
    wrong = (ids < 0) | (ids >= size)
    if ignored is not None:
        wrong &= ids != ignored
    if wrong.any():
        also = "" if ignored is None else f" (or {ignored}, which is not scored)"
        raise ValueError(
            f"{name}: token id {ids[wrong][0].item()} is outside the vocabulary of {size} tokens; ids are 0 to "
            f"{size - 1}{also}. Does the tokenizer belong to this model?"
        )
