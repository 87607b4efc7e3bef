"""A model that reads a text piece by piece, as decoding loops outside transformers let it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import nextword as nw
from tests.helpers.generating_models import prompt


class Reader:
    """Feeds a model piece by piece through one cache."""

    def __init__(self, model: nw.NextWordModel, rows: int = 2) -> None:
        self.model = model
        self.source = prompt(rows, 6, seed=11) if model.config.is_encoder_decoder else None
        self.cache: Any = None

    def arguments(self, ids: Tensor) -> dict[str, Tensor]:
        return {"input_ids": ids} if self.source is None else {"input_ids": self.source, "decoder_input_ids": ids}

    @torch.no_grad()
    def read(self, ids: Tensor) -> Tensor:
        out = self.model(**self.arguments(ids), past_key_values=self.cache, use_cache=True)
        self.cache = out.past_key_values
        logits: Tensor = out.logits
        return logits.double().log_softmax(-1)

    @torch.no_grad()
    def full(self, ids: Tensor, last: int) -> Tensor:
        log_probs = self.model.distribution(**self.arguments(ids), use_cache=False).log_probs()
        return log_probs.unflatten(0, (len(ids), -1))[:, -last:].double()
