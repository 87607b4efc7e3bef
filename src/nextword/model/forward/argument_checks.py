"""One argument by itself: its type, its shape, its size; raised before torch fails somewhere inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

_WHOLE = (torch.int64, torch.int32)


def expect_tokens(side: str, ids: Any, embeds: Any) -> Int[Tensor, "B T"] | None:
    """The decoder's token ids as int64, None where its embeddings are given alone.

    Args:
        side: What stands before the names of these arguments: ``decoder_`` in an encoder-decoder model.
        ids: Token ids (B, T) or None.
        embeds: Embeddings (B, T, D) instead of, or beside, the ids.

    Raises:
        ValueError: No tokens at all, or tensors of another type or shape.
    """
    if ids is None and embeds is None:
        raise ValueError("no tokens: pass input_ids (for an encoder-decoder model decoder_input_ids or labels)")
    if ids is not None:
        ids = expect_ids(f"{side}input_ids", ids, vectors=f"{side}inputs_embeds")
    if embeds is not None:
        expect_vectors(f"{side}inputs_embeds", embeds, ids=f"{side}input_ids")
    tokens = ids if ids is not None else embeds
    if tokens.shape[0] == 0:
        raise ValueError("empty batch: at least one row is needed")
    if tokens.shape[1] == 0:
        raise ValueError("empty prompt: at least one token is needed; start with the model's bos token")
    return ids


def expect_source(ids: Any) -> Int[Tensor, "B E"]:
    """The encoder's token ids as int64; raises ValueError where they are none."""
    ids = expect_ids("input_ids", ids, vectors="inputs_embeds")
    if ids.numel() == 0:
        raise ValueError("empty source: at least one token is needed")
    return ids


def expect_ids(name: str, given: Any, *, vectors: str | None = None) -> Int[Tensor, "B T"]:
    """Token ids as int64; raises ValueError where they are no (batch, places) of whole numbers.

    Args:
        name: Of the argument, for messages.
        given: What was given for it.
        vectors: The argument that takes vectors in place of ids, if there is one.
    """
    if not isinstance(given, Tensor):
        raise ValueError(f"{name}: a tensor of ids (batch, places) is needed, {type(given).__name__} given")
    if given.dtype not in _WHOLE:
        hint = f"; vectors go to {vectors}" if vectors is not None and given.is_floating_point() else ""
        raise ValueError(f"{name}: {given.dtype} given, whole numbers are needed (torch.int64 or torch.int32){hint}")
    if given.ndim != 2:
        hint = f"; add {name}[None] for one row" if given.ndim == 1 else ""
        raise ValueError(f"{name}: shape {tuple(given.shape)}, (batch, places) is needed{hint}")
    return given.long()  # embeddings take int32 as well


def expect_vectors(name: str, given: Any, *, ids: str) -> None:
    """Raises ValueError where an argument is no (batch, places, width) of vectors.

    Args:
        name: Of the argument, for messages.
        given: What was given for it.
        ids: The argument that takes ids in their place.
    """
    if not isinstance(given, Tensor):
        raise ValueError(f"{name}: a tensor (batch, places, width) is needed, {type(given).__name__} given")
    if not given.is_floating_point():
        raise ValueError(f"{name}: {given.dtype} given, vectors are needed; ids go to {ids}")
    if given.ndim != 3:
        raise ValueError(f"{name}: shape {tuple(given.shape)}, expected (batch, places, width)")


def expect_one_text(given: Mapping[str, Any]) -> None:
    """Raises ValueError where an auxiliary text is given in two ways, or as no tensor."""
    texts = {name: given[name] for name in ("aux_input_ids", "aux_states") if given.get(name) is not None}
    if len(texts) > 1:
        raise ValueError("auxiliary text: both aux_input_ids and aux_states are given; give one of them")
    for name, text in texts.items():
        if not isinstance(text, Tensor):
            raise ValueError(f"{name}: a tensor (batch, places) is needed, {type(text).__name__} given")


def expect_auxiliary_states(states: Tensor, width: int) -> None:
    """Raises ValueError where these are no states (batch, places, width) of the auxiliary encoder."""
    if states.ndim != 3 or states.shape[2] != width:
        raise ValueError(
            f"aux_states: shape {tuple(states.shape)}, expected (batch, places, {width}): the encoder's states are "
            f"{width} wide"
        )
    expect_vectors("aux_states", states, ids="aux_input_ids")


def expect_positions(position_ids: Any) -> None:
    """Raises ValueError where positions are given that no model can look up."""
    if position_ids is not None and (not isinstance(position_ids, Tensor) or position_ids.dtype not in _WHOLE):
        given = position_ids.dtype if isinstance(position_ids, Tensor) else type(position_ids).__name__
        raise ValueError(f"position_ids: {given} given, a tensor of whole numbers is needed")


def expect_chosen(positions: Any, shape: torch.Size) -> None:
    """Raises ValueError where positions are not chosen by a mask (B, T) of True and False."""
    given = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
    if given is not torch.bool:
        raise ValueError(f"positions: {given} given, a mask of torch.bool is needed: True at those to keep")
    if positions.shape != shape:
        raise ValueError(f"positions: shape {tuple(positions.shape)}, expected {tuple(shape)}")


def too_long(config: Any, length: int) -> str | None:
    """What to say where ``length`` places are more than a model with learned positions has; None where they fit."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or length <= limit:
        return None
    return (
        f"{length} places are more than the {limit} that the model has positions for; shorten the text, or score it in "
        "sliding windows (task 'lm' with a task.window and task.block that fit)"
    )
