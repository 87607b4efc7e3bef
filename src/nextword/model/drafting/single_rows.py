"""One text of a batch after the other, where the texts cannot go on from different lengths."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache
from transformers.utils.generic import ModelOutput

from nextword.model.head_cache.kv_cache import kv_length


def each_row(ids: Tensor, arguments: dict[str, Any]) -> Iterator[tuple[Tensor, dict[str, Any]]]:
    """The words and arguments of each text by itself, with a cache of its own."""
    for row in range(len(ids)):
        yield ids[row : row + 1], {name: _of_row(given, row, len(ids)) for name, given in arguments.items()}


def _of_row(given: Any, row: int, rows: int) -> Any:
    if isinstance(given, Tensor):
        return given[row : row + 1] if given.ndim and len(given) == rows else given
    if isinstance(given, ModelOutput):
        return type(given)(**{name: _of_row(value, row, rows) for name, value in given.items()})
    if isinstance(given, tuple):
        return tuple(_of_row(value, row, rows) for value in given)
    if isinstance(given, Cache):
        own = copy.deepcopy(given)
        if kv_length(own):
            own.batch_select_indices(torch.tensor([row]))
        return own
    return given


def joined(rows: Sequence[Tensor], pad: int) -> Tensor:
    """Texts (1, T) of different lengths as one tensor, with padding behind them."""
    longest = max(row.shape[1] for row in rows)
    whole = rows[0].new_full((len(rows), longest), pad)
    for number, row in enumerate(rows):
        whole[number, : row.shape[1]] = row[0]
    return whole
