"""Gates: how much each part of a distribution counts at each position."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nextword.functional.probability import at_least_float32


class Gate(nn.Module, ABC):
    """Weights of K parts at each position, in log space."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.parts = parts

    @abstractmethod
    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        """Log-weights; each row sums to one in probability."""


class DynamicGate(Gate):
    """``softmax(G q_t + g)``: weights that depend on the position."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__(width, parts)
        self.linear = nn.Linear(width, parts)

    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        return at_least_float32(self.linear(inputs)).log_softmax(-1)


class StaticGate(Gate):
    """``softmax(r)``: learned weights, the same at every position."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__(width, parts)
        self.scores = nn.Parameter(torch.ones(parts))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.scores)

    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        return at_least_float32(self.scores).log_softmax(-1).expand(len(inputs), -1)


class UniformGate(Gate):
    """``1 / K``."""

    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        return at_least_float32(inputs.new_zeros(len(inputs), self.parts)).log_softmax(-1)


class ScalarGate(nn.Linear):
    """``w_g . h_t + b_g``: one number per position; ``b_g`` starts at ``initial_bias``."""

    def __init__(self, width: int, initial_bias: float = 0.0) -> None:
        self.initial_bias = initial_bias  # before the base class, which starts the weights
        super().__init__(width, 1)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.bias, self.initial_bias)

    @torch.no_grad()
    def start_at(self, bias: float) -> None:
        """The same score everywhere, however long the states are."""
        self.weight.zero_()
        self.bias.fill_(bias)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N"]:
        return at_least_float32(super().forward(states)[:, 0])
