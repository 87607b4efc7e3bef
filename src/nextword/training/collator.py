"""Sequences of different lengths become one padded batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

IGNORED = -100
"""Label of a position whose prediction does not count, as everywhere in transformers."""


@dataclass(frozen=True)
class RightPadding:
    """Pads on the right: ids with ``pad_id``, labels with -100, and a mask that is 0 there.

    Args:
        pad_id: Which id is without effect, because mask and labels leave these positions out.
        aligned: Whether each label stands beside an input id, as for decoder-only models. The labels of encoder-decoder
            models are a sequence of their own, padded to its own longest length T' in place of T.
        without_logits: Put ``return_logits=False`` into the batch: our models then return a loss without
            building (B,T,V).

    >>> batch = RightPadding()([{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, {"input_ids": [8], "labels": [8]}])
    >>> batch["input_ids"].tolist(), batch["labels"].tolist(), batch["attention_mask"].tolist()
    ([[5, 6, 7], [8, 0, 0]], [[-100, 6, 7], [8, -100, -100]], [[1, 1, 1], [1, 0, 0]])
    """

    pad_id: int = 0
    aligned: bool = True
    without_logits: bool = False

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """One batch of (B,T) tensors, T the longest length.

        Raises:
            ValueError: Aligned labels of another length than the input ids.
        """
        ids = [_vector(example["input_ids"]) for example in examples]
        batch: dict[str, Any] = {
            "input_ids": _stacked(ids, self.pad_id),
            "labels": _stacked([_vector(example["labels"]) for example in examples], IGNORED),
            "attention_mask": _stacked([torch.ones_like(row) for row in ids], 0),
        }
        if self.aligned and any(len(example["input_ids"]) != len(example["labels"]) for example in examples):
            lengths = [(len(example["input_ids"]), len(example["labels"])) for example in examples]
            raise ValueError(f"each example needs as many labels as input_ids; got lengths (ids, labels) {lengths}")
        if self.without_logits:
            batch["return_logits"] = False
        return batch


def _vector(values: Any) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.long)


def _stacked(rows: list[torch.Tensor], fill: int) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fill)
