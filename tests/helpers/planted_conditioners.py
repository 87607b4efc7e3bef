"""Conditioners with one planted mistake each; the checker must find every one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from nextword.conditioning import Conditioner, ConditionerConfig
from nextword.conditioning.conditioner import OutputProjection
from nextword.conditioning.pooling import pooled
from nextword.distribution import Shifted, Vocabulary
from nextword.heads import Dimensions


class PlantedConfig(ConditionerConfig):
    conditioner: Literal["planted"] = "planted"
    start: Literal["unchanged", "random"] = "random"


class Right(Conditioner):
    """Adds scores made of the mean of the auxiliary text, as it should be."""

    Config = PlantedConfig

    def __init__(self, config: PlantedConfig, dimensions: Dimensions, attention_heads: int) -> None:
        super().__init__(config, dimensions, attention_heads)
        self.project = OutputProjection(self.width, dimensions.vocab_size, config.start)

    def pool(self, states: Tensor, valid: Tensor) -> Tensor:
        return pooled(states, valid, "mean")

    def read(self, states: Tensor, valid: Tensor) -> dict[str, Tensor]:
        return {"scores": 10 * self.project(self.pool(states, valid))}

    def output_layer(self, vocabulary: Vocabulary, kept: Mapping[str, Tensor]) -> Vocabulary:
        scores = kept["scores"]
        return Shifted(vocabulary, scores, torch.arange(len(scores)))


class Deaf(Right):
    """Knows how long the text is, and nothing else of it."""

    def pool(self, states: Tensor, valid: Tensor) -> Tensor:
        return torch.ones_like(states[:, 0]) * valid.sum(1, keepdim=True)


class DeafToMost(Right):
    """Hears the text where the first of its tokens is one of half of them only."""

    def pool(self, states: Tensor, valid: Tensor) -> Tensor:
        return super().pool(states, valid) * (states[:, :1, 0] > 0)


class MeanOverPadding(Right):
    def pool(self, states: Tensor, valid: Tensor) -> Tensor:
        return states.mean(1)


class MaxOverPadding(Right):
    def pool(self, states: Tensor, valid: Tensor) -> Tensor:
        return states.amax(1)


class LastColumn(Right):
    """Takes the last column for the last token."""

    def pool(self, states: Tensor, valid: Tensor) -> Tensor:
        return states[:, -1]


class MeanOverBatch(Right):
    """Centres what it reads over the texts at hand."""

    def pool(self, states: Tensor, valid: Tensor) -> Tensor:
        own = super().pool(states, valid)
        return own - 0.1 * own.mean(0)


class Neighbour(Right):
    """Reads the text of the sequence above, too."""

    def pool(self, states: Tensor, valid: Tensor) -> Tensor:
        own = super().pool(states, valid)
        return own + 0.1 * own.roll(1, 0)


class StaysBehind(Right):
    """Keeps its scores on itself, where beam search does not find them."""

    def read(self, states: Tensor, valid: Tensor) -> dict[str, Tensor]:
        self.scores = super().read(states, valid)["scores"]
        return {}

    def output_layer(self, vocabulary: Vocabulary, kept: Mapping[str, Tensor]) -> Vocabulary:
        return super().output_layer(vocabulary, {"scores": self.scores})


class Restless(Right):
    """Forgets to ask whether it is in training."""

    def pool(self, states: Tensor, valid: Tensor) -> Tensor:
        own: Any = torch.nn.functional.dropout(super().pool(states, valid), 0.2)
        return own
