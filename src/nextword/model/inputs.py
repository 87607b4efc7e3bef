"""The inputs of one forward pass as the head sees them, and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling


@dataclass(frozen=True)
class DecoderInputs:
    """The decoder's side of a call.

    Args:
        ids: New tokens (B, T); -1 where only their embeddings are given.
        valid: False at padding (B, T).
    """

    ids: Tensor
    valid: Tensor

    @classmethod
    def of(cls, ids: Tensor | None, embeds: Tensor | None, mask: Any, backbone: Any) -> DecoderInputs:
        """Read from the arguments of a forward call.

        Args:
            ids: Token ids (B, T) or None.
            embeds: Embeddings (B, T, D) instead of, or beside, the ids.
            mask: Attention mask; a 2-D one may be longer than the new tokens (it covers the past too), others say
                nothing about padding of single tokens and are not looked at.
            backbone: The model, for the size of its vocabulary.

        Raises:
            ValueError: No tokens at all, or ids outside the vocabulary.
        """
        given = ids if ids is not None else embeds
        if given is not None and not isinstance(given, Tensor):
            raise ValueError(f"tokens: a tensor of ids (batch, places) is needed, {type(given).__name__} given")
        if given is not None and given.ndim < 2:
            raise ValueError(
                f"tokens: shape {tuple(given.shape)}, (batch, places) is needed; add ids[None] for one row"
            )
        if ids is not None and ids.is_floating_point():
            raise ValueError(f"input_ids: {ids.dtype} given, whole numbers are needed; embeddings go to inputs_embeds")
        if given is None:
            raise ValueError("no tokens: pass input_ids (for an encoder-decoder model decoder_input_ids or labels)")
        if given.shape[1] == 0:
            raise ValueError("empty prompt: at least one token is needed; start with the model's bos token")
        if ids is not None:
            expect_known_ids("input_ids", ids, backbone.get_input_embeddings().weight.shape[0])
            ids = ids.long()  # embeddings take int32 as well
        else:
            ids = torch.full(given.shape[:2], -1, dtype=torch.long, device=given.device)
        if isinstance(mask, Tensor) and mask.ndim == 2:
            valid = mask[:, -given.shape[1] :].bool()
        else:
            valid = torch.ones(given.shape[:2], dtype=torch.bool, device=given.device)
        return cls(ids, valid)


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
