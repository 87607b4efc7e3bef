"""The inputs of one forward pass as the head sees them, and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

_WHOLE = (torch.int64, torch.int32)


@dataclass(frozen=True)
class DecoderInputs:
    """The decoder's side of a call.

    Args:
        ids: New tokens; -1 where only their embeddings are given.
        valid: False at padding.
    """

    ids: Int[Tensor, "B T"]
    valid: Bool[Tensor, "B T"]

    @classmethod
    def of(
        cls, ids: Any, embeds: Any, mask: Any, backbone: Any, *, side: str = "", past: int | None = 0
    ) -> DecoderInputs:
        """Read from the arguments of a forward call.

        Args:
            ids: Token ids (B, T) or None.
            embeds: Embeddings (B, T, D) instead of, or beside, the ids.
            mask: Attention mask, as in :func:`valid_places`.
            backbone: The model, for the size of its vocabulary.
            side: What stands before the names of these arguments: ``decoder_`` in an encoder-decoder model.
            past: Places that the KV cache holds; None where that is not known.

        Raises:
            ValueError: No tokens at all, ids outside the vocabulary, or tensors of another type or shape.
        """
        if ids is None and embeds is None:
            raise ValueError("no tokens: pass input_ids (for an encoder-decoder model decoder_input_ids or labels)")
        if ids is not None:
            ids = expect_ids(f"{side}input_ids", ids, vectors=f"{side}inputs_embeds")
        if embeds is not None:
            expect_vectors(f"{side}inputs_embeds", embeds, ids=f"{side}input_ids")
        given = ids if ids is not None else embeds
        if given.shape[0] == 0:
            raise ValueError("empty batch: at least one row is needed")
        if given.shape[1] == 0:
            raise ValueError("empty prompt: at least one token is needed; start with the model's bos token")
        if ids is not None:
            expect_known_ids(f"{side}input_ids", ids, backbone.get_input_embeddings().weight.shape[0])
        else:
            ids = torch.full(given.shape[:2], -1, dtype=torch.long, device=given.device)
        return cls(ids, valid_places(f"{side}attention_mask", mask, ids, past))


def expect_ids(name: str, given: Any, *, vectors: str | None = None) -> Int[Tensor, "B T"]:
    """Token ids as int64; raises ValueError where they are no (batch, places) of whole numbers.

    Args:
        name: Of the argument, for messages.
        given: What was given for it.
        vectors: The argument that takes vectors in place of ids, if there is one.
    """
    if not isinstance(given, Tensor):
        raise ValueError(f"{name}: must be a tensor of ids (batch, places) ({type(given).__name__} given)")
    if given.dtype not in _WHOLE:
        hint = f"; vectors go to {vectors}" if vectors is not None and given.is_floating_point() else ""
        raise ValueError(f"{name}: must be whole numbers, torch.int64 or torch.int32 ({given.dtype} given){hint}")
    if given.ndim != 2:
        hint = f"; add {name}[None] for one row" if given.ndim == 1 else ""
        raise ValueError(f"{name}: must be (batch, places) (shape {tuple(given.shape)} given){hint}")
    return given.long()  # embeddings take int32 as well


def expect_vectors(name: str, given: Any, *, ids: str) -> None:
    """Raises ValueError where an argument is no (batch, places, width) of vectors.

    Args:
        name: Of the argument, for messages.
        given: What was given for it.
        ids: The argument that takes ids in their place.
    """
    if not isinstance(given, Tensor):
        raise ValueError(f"{name}: must be a tensor (batch, places, width) ({type(given).__name__} given)")
    if not given.is_floating_point():
        raise ValueError(f"{name}: must be vectors ({given.dtype} given); ids go to {ids}")
    if given.ndim != 3:
        raise ValueError(f"{name}: must be (batch, places, width) (shape {tuple(given.shape)} given)")


def valid_places(name: str, mask: Any, tokens: Tensor, past: int | None = 0) -> Bool[Tensor, "B T"]:
    """True at new tokens, False at padding.

    Args:
        name: Of the mask, for messages.
        mask: 2-D attention mask; it covers the places in the KV cache too. Masks of other kinds (4-D, a dictionary,
            none) say who sees whom and nothing about padding, so all tokens are valid.
        tokens: The new ones (B, T) or (B, T, D).
        past: Places that the KV cache holds; None where that is not known.

    Raises:
        ValueError: The mask does not fit the tokens, or its numbers are no 1 and 0.
    """
    rows, places = tokens.shape[:2]
    if isinstance(mask, list | tuple) or (isinstance(mask, Tensor) and mask.ndim < 2):
        given = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"{name}: must be a tensor (batch, places), 1 for tokens and 0 for padding ({given} given)")
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return torch.ones((rows, places), dtype=torch.bool, device=tokens.device)
    fits = mask.shape[1] >= places if past is None else mask.shape[1] == places + past
    if len(mask) != rows or not fits:
        held = f", {past} places in the KV cache and {places} new ones" if past else ""
        raise ValueError(f"{name}: must be ({rows}, {places + (past or 0)}){held} (shape {tuple(mask.shape)} given)")
    if mask.device.type == "cpu" and not is_torchdynamo_compiling() and bool((mask < 0).any()):
        raise ValueError(
            f"{name}: {mask.min().item():g} found, 1 stands for tokens and 0 for padding; a mask that is added to "
            "attention scores has four dimensions"
        )
    return mask[:, -places:].bool()


def expect_positions(position_ids: Any) -> None:
    """Raises ValueError where positions are given that no model can look up."""
    if position_ids is not None and (not isinstance(position_ids, Tensor) or position_ids.dtype not in _WHOLE):
        given = position_ids.dtype if isinstance(position_ids, Tensor) else type(position_ids).__name__
        raise ValueError(f"position_ids: must be a tensor of whole numbers ({given} given)")


def expect_chosen(positions: Any, shape: torch.Size) -> None:
    """Raises ValueError where positions are not chosen by a mask (B, T) of True and False."""
    given = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
    if given is not torch.bool:
        raise ValueError(f"positions: must be a mask of torch.bool, True at those to keep ({given} given)")
    if positions.shape != shape:
        raise ValueError(f"positions: must be {tuple(shape)} (shape {tuple(positions.shape)} given)")


def expect_known_ids(name: str, ids: Tensor, size: int, *, ignored: int | None = None) -> None:
    """Raises ValueError where a token id is outside the vocabulary.

    Looked at on the CPU only: elsewhere it would stop the device in every step.
    """
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


def too_long(config: Any, length: int) -> str | None:
    """What to say where ``length`` places are more than a model with learned positions has; None where they fit."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or length <= limit:
        return None
    return (
        f"{length} places are more than the {limit} that the model has positions for; shorten the text, or score it in "
        "sliding windows (task 'lm' with a task.window and task.block that fit)"
    )
