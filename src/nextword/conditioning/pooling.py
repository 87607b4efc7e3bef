"""Pooling: one vector of a whole auxiliary text, which shifts the scores of all words at once."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nextword.conditioning.conditioner import Conditioner, ConditionerConfig, OutputProjection
from nextword.distribution import Shifted, Vocabulary
from nextword.heads import Dimensions

Pooling = Literal["mean", "max"]


class PooledConfig(ConditionerConfig):
    """Settings of conditioners that read one vector."""

    published: ClassVar[Mapping[str, Any]] = {"start": "random", "trains": "new"}

    pooling: Pooling = "mean"
    """Mean ("avg" in the paper) or maximum of each coordinate over the auxiliary text's tokens."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``lmh:max``."""
        if not arguments:
            return {}
        if len(arguments) > 1 or arguments[0] not in ("mean", "max"):
            raise ValueError(f"must be followed by mean or max ({','.join(arguments)!r} given)")
        return {"pooling": arguments[0]}

    def arguments(self) -> list[str]:
        """The pooling where it is not the mean."""
        return [] if self.pooling == "mean" else [self.pooling]


def pooled(states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"], pooling: Pooling) -> Float[Tensor, "B E"]:
    """Mean or maximum over the tokens that are ``valid``; special tokens count, padding never does."""
    if pooling == "max":
        return states.masked_fill(~valid[..., None], -torch.inf).amax(1)
    return states.masked_fill(~valid[..., None], 0.0).sum(1) / valid.sum(1, keepdim=True)


class PooledConditioner(Conditioner, ABC):
    """Adds ``U p + b`` to the scores of all words, p being the pooled auxiliary text; computed once for each text."""

    def __init__(self, config: PooledConfig, dimensions: Dimensions, attention_heads: int) -> None:
        super().__init__(config, dimensions, attention_heads)
        self.project = OutputProjection(self.width, dimensions.vocab_size, config.start)

    def read(self, states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"]) -> dict[str, Tensor]:
        """``U p + b``."""
        return {"scores": self.project(pooled(states, valid, self.config.pooling))}

    def output_layer(self, vocabulary: Vocabulary, kept: Mapping[str, Tensor]) -> Vocabulary:
        """The scores of the states, shifted."""
        scores = kept["scores"]
        return Shifted(vocabulary, scores, torch.arange(len(scores), device=scores.device))

    def resized(self, vocab_size: int) -> None:
        """New tokens are not shifted."""
        self.project.resize(vocab_size)
