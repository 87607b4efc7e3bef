"""A network behind a function: prefixes of different lengths become one padded batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tests.helpers.audit_zoo.planting import right
from tests.helpers.families import PAD, VOCABULARY, tiny


@right
class PaddedLeft:
    """A tiny GPT-2 that reads prefixes padded on the left."""

    vocabulary = VOCABULARY
    precision = "float32"

    @cached_property
    def model(self) -> Any:
        """The network."""
        return tiny("gpt2")

    @torch.no_grad()
    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Log-probabilities (N, V)."""
        ids, mask = self.padded([list(prefix) for prefix in prefixes])
        return self.model(**self.inputs(ids, mask)).logits[:, -1].double().log_softmax(-1)

    def padded(self, prefixes: list[list[int]]) -> tuple[Tensor, Tensor]:
        """Ids and mask (N, T)."""
        longest = max(len(prefix) for prefix in prefixes)
        ids = torch.tensor([[PAD] * (longest - len(prefix)) + prefix for prefix in prefixes])
        mask = torch.tensor([[0] * (longest - len(prefix)) + [1] * len(prefix) for prefix in prefixes])
        return ids, mask

    def inputs(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """What the network is given."""
        return {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp_min(0)}
