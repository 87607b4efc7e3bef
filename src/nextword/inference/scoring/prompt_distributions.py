"""The next-token distribution of a model after each of several rows of ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from nextword.functional.padding import padded


def ask(
    model: Any, rows: Sequence[Sequence[int]], pad: int, mode: str = "joint", everywhere: bool = False
) -> tuple[Any, Bool[Tensor, "B T"]]:
    """Distribution after each row (or at every real position), and the chosen positions.

    Args:
        model: An attached model.
        rows: Ids, padded on the right.
        pad: What fills; without effect, because the mask leaves it out.
        mode: One of the head's.
        everywhere: Whether every real position is asked for, and not only the last of each row.
    """
    ids, mask = padded(rows, pad)
    positions = mask.bool() if everywhere else last_positions(mask)
    on = model.device
    return model.distribution(ids.to(on), attention_mask=mask.to(on), positions=positions.to(on), mode=mode), positions


def last_positions(mask: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """True at each row's last real token."""
    return torch.arange(mask.shape[1])[None, :] == mask.sum(dim=1, keepdim=True) - 1
