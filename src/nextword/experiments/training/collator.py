"""Sequences of different lengths become one padded batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nextword.conditioning.parts.auxiliary_tokenizer import FILL
from nextword.experiments.training.encoded_texts import EncodedTexts
from nextword.functional.padding import IGNORED_LABEL, padded, stacked


@dataclass(frozen=True)
class Auxiliary:
    """The auxiliary text's part of a batch, for models with a conditioner; other models never see these columns.

    Args:
        source: Whether to hand on the text in the decoder's tokens as well, for heads that copy from it.
        encoded: The encoder's states of texts, handed on in place of their ids where all of a batch are there.

    >>> Auxiliary()([{"aux_input_ids": [5, 6]}, {"aux_input_ids": [7]}])["aux_attention_mask"].tolist()
    [[1, 1], [1, 0]]
    """

    source: bool = False
    encoded: EncodedTexts | None = None

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Arguments of ``forward``: (B,A) ids or (B,A,E) states with their mask, and (B,S) the source."""
        rows = _column(examples, "aux_input_ids")
        ids, mask = padded(rows, FILL["aux_input_ids"])
        states = self.encoded.of(rows) if self.encoded is not None else None
        batch: dict[str, Any] = {"aux_attention_mask": mask}
        batch |= {"aux_input_ids": ids} if states is None else {"aux_states": stacked(states, 0)}
        if self.source:
            for name in ("source_ids", "source_places"):
                batch[name] = stacked(_column(examples, name), FILL[name])
        return batch

    @property
    def columns(self) -> list[str]:
        """What the data must have for it."""
        return ["aux_input_ids", *(["source_ids", "source_places"] if self.source else [])]


@dataclass(frozen=True)
class RightPadding:
    """Pads on the right: ids with ``pad_id``, labels with -100, and a mask that is 0 there.

    Args:
        pad_id: Which id is without effect, because mask and labels leave these positions out.
        aligned: Whether each label stands beside an input id, as for decoder-only models. The labels of encoder-decoder
            models are a sequence of their own, padded to its own longest length T' in place of T.
        without_logits: Put ``return_logits=False`` into the batch: our models then return a loss without
            building (B,T,V).
        auxiliary: Makes the auxiliary text's part of the batch; without it such columns are left out.

    >>> batch = RightPadding()([{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, {"input_ids": [8], "labels": [8]}])
    >>> batch["input_ids"].tolist(), batch["labels"].tolist(), batch["attention_mask"].tolist()
    ([[5, 6, 7], [8, 0, 0]], [[-100, 6, 7], [8, -100, -100]], [[1, 1, 1], [1, 0, 0]])
    """

    pad_id: int = 0
    aligned: bool = True
    without_logits: bool = False
    auxiliary: Auxiliary | None = None

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """One batch of (B,T) tensors, T the longest length.

        Raises:
            ValueError: Aligned labels of another length than the input ids.
        """
        ids, mask = padded(_column(examples, "input_ids"), self.pad_id)
        labels = stacked(_column(examples, "labels"), IGNORED_LABEL)
        batch: dict[str, Any] = {"input_ids": ids, "labels": labels, "attention_mask": mask}
        if self.aligned and any(len(example["input_ids"]) != len(example["labels"]) for example in examples):
            lengths = [(len(example["input_ids"]), len(example["labels"])) for example in examples]
            raise ValueError(f"labels: must be as many as input_ids (lengths (ids, labels) {lengths} given)")
        if self.without_logits:
            batch["return_logits"] = False
        if self.auxiliary is not None:
            batch |= self.auxiliary(examples)
        return batch


def _column(examples: Sequence[dict[str, Any]], name: str) -> list[torch.Tensor]:
    return [torch.as_tensor(example[name], dtype=torch.long) for example in examples]
