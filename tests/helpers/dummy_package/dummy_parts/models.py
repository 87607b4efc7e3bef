"""A head, an objective and a conditioner."""

from __future__ import annotations

from typing import Any, Literal

import nextword as nw
from nextword.conditioning.pooling import PooledConditioner, PooledConfig
from nextword.distribution import SoftmaxDistribution
from nextword.heads import Head, HeadConfig
from nextword.heads import registry as heads
from nextword.heads.input_states import MultiInputConfig
from nextword.objectives import Loss, Objective, ObjectiveConfig


class WarmConfig(HeadConfig):
    head: Literal["warm"] = "warm"
    factor: float = 2.0
    mi: MultiInputConfig | None = None

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        return {"factor": float(arguments[0])} if arguments else {}

    def arguments(self) -> list[str]:
        return [f"{self.factor:g}"]


@heads.register("warm")
class WarmHead(Head):
    """Softmax of states times a factor. As in ``warm:3``."""

    Config = WarmConfig

    def forward(self, context: Any, mode: str | None = None) -> SoftmaxDistribution:
        return SoftmaxDistribution(context.vocabulary, context.states * self.config.factor, name="warm")


class DoubleConfig(ObjectiveConfig):
    objective: Literal["double"] = "double"


@nw.objectives.registry.register("double")
class Double(Objective):
    """Twice the negative log-likelihood."""

    Config = DoubleConfig

    def forward(self, head: Head, context: Any, targets: Any) -> Loss:
        total = -2 * head(context).log_likelihood(targets)
        return Loss.of(total, len(targets), token_loss=total)


class StillConfig(PooledConfig):
    conditioner: Literal["still"] = "still"


@nw.conditioning.registry.register("still")
class Still(PooledConditioner):
    """The pooled auxiliary text adds to the scores, under another name."""

    Config = StillConfig
