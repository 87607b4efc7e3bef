"""Batches of token sequences of different lengths, padded on the right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

if TYPE_CHECKING:
    import torch

Encoded = Mapping[str, Sequence[Any]]
"""What a tokenizer gives for one text: ``input_ids`` and what else the model reads, one entry a token."""


def by_length(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Places in batches of similar lengths, the longest first, so that a batch too large for memory fails at once.

    >>> list(by_length([3, 9, 4, 8], 2))
    [[1, 3], [2, 0]]
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    for start in range(0, len(order), size):
        yield order[start : start + size]


def padded(texts: Sequence[Encoded], pad_id: int) -> dict[str, Int[np.ndarray, "B T ..."]]:
    """One array a field, filled up on the right: ids with ``pad_id``, masks and types with 0."""
    longest = max(len(text["input_ids"]) for text in texts)
    fields = {}
    for field in texts[0]:
        rows = [np.asarray(text[field], dtype=np.int64) for text in texts]
        fill = pad_id if field == "input_ids" else 0
        array = np.full((len(rows), longest, *rows[0].shape[1:]), fill, dtype=np.int64)
        for place, row in enumerate(rows):
            array[place, : len(row)] = row
        fields[field] = array
    return fields


def as_tensors(fields: Mapping[str, np.ndarray], device: str) -> dict[str, torch.Tensor]:
    """The same on the device of a model."""
    import torch

    return {name: torch.from_numpy(array).to(device) for name, array in fields.items()}


def pad_id_of(tokenizer: Any) -> int:
    """An id to fill up with; it is masked, so that any does where the tokenizer has none."""
    return int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0)
