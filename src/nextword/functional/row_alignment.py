"""Rows of unequal length, put together at their ends: what lies before a shorter row is padding."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor


def aligned_at_end(
    places: Shaped[Tensor, "B S ..."], dropped: Int[Tensor, "B"], length: int
) -> Shaped[Tensor, "B length ..."]:
    """The last ``length`` places of each row without its ``dropped`` last ones.

    Where a row has fewer places than that, its first one stands for what is missing (``known_at_end`` says where).

    >>> aligned_at_end(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([0, 1]), 3)
    tensor([[1, 2, 3],
            [4, 4, 5]])
    """
    rows = torch.arange(len(places), device=places.device)[:, None]
    return places[rows, _columns(places.shape[1], dropped.to(places.device), length).clamp(min=0)]


def known_at_end(valid: Bool[Tensor, "B S"], dropped: Int[Tensor, "B"], length: int) -> Bool[Tensor, "B length"]:
    """``aligned_at_end`` of a mask, False where a row has too few places.

    >>> known_at_end(torch.ones(2, 3, dtype=torch.bool), torch.tensor([0, 1]), 3).tolist()
    [[True, True, True], [False, True, True]]
    """
    reached = _columns(valid.shape[1], dropped.to(valid.device), length) >= 0
    return aligned_at_end(valid, dropped, length) & reached


def _columns(places: int, dropped: Tensor, length: int) -> Tensor:
    return torch.arange(places - length, places, device=dropped.device) - dropped[:, None]
