"""Puts rows of different lengths into one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

Side = Literal["left", "right"]

IGNORED_LABEL = -100
"""Label of a position that is not a target, as in transformers."""


def stacked(
    rows: Sequence[Tensor] | Sequence[Sequence[int]], fill: int, side: Side = "right"
) -> Shaped[Tensor, "B ..."]:
    """Stacks rows, with ``fill`` on the given ``side`` of rows shorter than the longest; lists become int64.

    >>> stacked([[5, 6], [7]], -100)
    tensor([[   5,    6],
            [   7, -100]])
    """
    return pad_sequence(_vectors(rows), batch_first=True, padding_value=fill, padding_side=side)


def padded(
    rows: Sequence[Tensor] | Sequence[Sequence[int]], fill: int = 0, side: Side = "right"
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Stacks rows of ids and returns them with their attention mask, which is 0 at padding.

    With padding on the right, the index of a column is the position of its tokens. With padding on the left, all rows
    end in the last column, as needed to continue texts. A model with the mask gives the same result for any ``fill``.

    >>> padded([[5, 6], [7]], side="left")
    (tensor([[5, 6],
            [0, 7]]), tensor([[1, 1],
            [0, 1]]))
    """
    vectors = _vectors(rows)
    return stacked(vectors, fill, side), stacked([torch.ones_like(row) for row in vectors], 0, side)


def _vectors(rows: Sequence[Tensor] | Sequence[Sequence[int]]) -> list[Tensor]:
    return [row if isinstance(row, Tensor) else torch.tensor(row, dtype=torch.long) for row in rows]


def shifted_right(labels: Int[Tensor, "B T"], start: int, pad: int) -> Int[Tensor, "B T"]:
    """Decoder inputs for ``labels``: the token ``start``, then all labels but the last, with ``pad`` in place of -100.

    >>> shifted_right(torch.tensor([[7, 8, -100]]), start=2, pad=0)
    tensor([[2, 7, 8]])
    """
    moved = torch.cat([labels.new_full((len(labels), 1), start), labels[:, :-1]], 1)
    return moved.masked_fill(moved == IGNORED_LABEL, pad)


# -- Rows of unequal length, aligned at their ends; a shorter row has padding before it.


def aligned_at_end(
    positions: Shaped[Tensor, "B S ..."], dropped: Int[Tensor, "B"], length: int
) -> Shaped[Tensor, "B length ..."]:
    """Removes the last ``dropped[b]`` positions of each row b, then returns the row's last ``length`` positions.

    If a row has fewer positions left, its first position fills the gap (where ``known_at_end`` is False).

    >>> aligned_at_end(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([0, 1]), 3)
    tensor([[1, 2, 3],
            [4, 4, 5]])
    """
    rows = torch.arange(len(positions), device=positions.device)[:, None]
    return positions[rows, _columns(positions.shape[1], dropped.to(positions.device), length).clamp(min=0)]


def known_at_end(valid: Bool[Tensor, "B S"], dropped: Int[Tensor, "B"], length: int) -> Bool[Tensor, "B length"]:
    """``aligned_at_end`` of the mask ``valid``, with False where a row has too few positions.

    >>> known_at_end(torch.ones(2, 3, dtype=torch.bool), torch.tensor([0, 1]), 3).tolist()
    [[True, True, True], [False, True, True]]
    """
    reached = _columns(valid.shape[1], dropped.to(valid.device), length) >= 0
    return aligned_at_end(valid, dropped, length) & reached


def _columns(positions: int, dropped: Tensor, length: int) -> Tensor:
    return torch.arange(positions - length, positions, device=dropped.device) - dropped[:, None]
