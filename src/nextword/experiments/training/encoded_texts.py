"""Auxiliary texts that a frozen encoder reads once before training, and not in every step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.conditioning.parts.auxiliary_encoder import fingerprint
from nextword.conditioning.parts.auxiliary_tokenizer import FILL
from nextword.functional.padding import padded

logger = logging.getLogger(__name__)

COLUMN = "aux_input_ids"
"""Column of the texts' ids."""
LIMIT = 2**30
"""Bytes of states that are kept in memory."""
ROWS = 32
"""Texts that are encoded together."""

Key = tuple[int, ...]


class EncodedTexts:
    """The encoder's states of texts, by the texts' ids.

    Args:
        states: Of each text, one state for each of its tokens.
        encoder: Fingerprint of the encoder.
    """

    def __init__(self, states: dict[Key, Float[Tensor, "_ E"]], encoder: str) -> None:
        self._states = states
        self.encoder = encoder

    def __len__(self) -> int:
        return len(self._states)

    def of(self, ids: Sequence[Int[Tensor, "_"]]) -> list[Float[Tensor, "_ E"]] | None:
        """The states of each text, or None where one of them was not encoded."""
        states = [self._states.get(tuple(row.tolist())) for row in ids]
        return [row for row in states if row is not None] if all(row is not None for row in states) else None


def is_encodable(model: Any) -> bool:
    """Whether the model has an encoder of auxiliary texts that training leaves as it is."""
    encoder = getattr(model, "auxiliary_encoder", None)
    return encoder is not None and not any(parameter.requires_grad for parameter in encoder.parameters())


def distinct_texts(datasets: Iterable[Any]) -> list[Key]:
    """The texts of data sets, each once, sorted by length and then by ids: whatever order the rows have."""
    texts = {tuple(row) for dataset in datasets if COLUMN in dataset.column_names for row in _column(dataset)}
    return sorted(texts, key=lambda text: (len(text), text))


def _column(dataset: Any) -> Iterable[Sequence[int]]:
    if hasattr(dataset, "select_columns"):
        return (row[COLUMN] for row in dataset.select_columns(COLUMN).with_format(None))
    return (dataset[place][COLUMN] for place in range(len(dataset)))


@torch.no_grad()
def encode_texts(model: Any, texts: Sequence[Key], progress: Callable[[float], None]) -> EncodedTexts | None:
    """Encodes texts with a model's frozen encoder, always in the same batches, so that the digits are always the same.

    Args:
        model: A model with a conditioner, on the device that encodes.
        texts: What ``distinct_texts`` gives.
        progress: Called with the finished share.

    Returns:
        None where the states would take more than ``LIMIT``; the encoder then reads the texts of every batch.
    """
    width = model.auxiliary_encoder.config.hidden_size
    needed = 4 * width * sum(map(len, texts))
    if needed > LIMIT:
        logger.info("states of %d texts would take %.1f GiB; each batch is encoded anew", len(texts), needed / 2**30)
        return None
    model.eval()
    states: dict[Key, Tensor] = {}
    for begin in range(0, len(texts), ROWS):
        some = texts[begin : begin + ROWS]
        ids, mask = padded(some, FILL["aux_input_ids"])
        encoded = model.encode(ids.to(model.device), mask.to(model.device)).float().cpu()
        states |= {text: row[: len(text)].clone() for text, row in zip(some, encoded, strict=True)}
        progress(min(1.0, (begin + ROWS) / len(texts)))
    return EncodedTexts(states, fingerprint(model.auxiliary_encoder))
