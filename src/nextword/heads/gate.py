"""Gates: the weight of each component of a distribution at each position."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nextword.functional.probability import at_least_float32


class Gate(nn.Module, ABC):
    """Computes the log-weights of K (``parts``) components at each position, from a vector of ``width`` numbers."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.parts = parts

    @abstractmethod
    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        """The log-weights; the weights of a position sum to one."""


class DynamicGate(Gate):
    """Weights that depend on the position's input ``q_t``: ``softmax(G q_t + g)``, with learned ``G`` and ``g``."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__(width, parts)
        self.linear = nn.Linear(width, parts)

    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        return at_least_float32(self.linear(inputs)).log_softmax(-1)


class StaticGate(Gate):
    """Weights that are the same at every position: ``softmax(r)``, with a learned vector ``r``."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__(width, parts)
        self.scores = nn.Parameter(torch.ones(parts))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.scores)

    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        return at_least_float32(self.scores).log_softmax(-1).expand(len(inputs), -1)


class UniformGate(Gate):
    """Constant weights ``1 / K``."""

    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        return at_least_float32(inputs.new_zeros(len(inputs), self.parts)).log_softmax(-1)


class ScalarGate(nn.Linear):
    """One score per position, ``w_g . h_t + b_g``; ``b_g`` starts at ``initial_bias``."""

    def __init__(self, width: int, initial_bias: float = 0.0) -> None:
        self.initial_bias = initial_bias  # set before the base class initialises the weights
        super().__init__(width, 1)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.bias, self.initial_bias)

    @torch.no_grad()
    def start_at(self, bias: float) -> None:
        """Initialises the gate so that its score is ``bias`` at every position."""
        self.weight.zero_()
        self.bias.fill_(bias)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N"]:
        return at_least_float32(super().forward(states)[:, 0])
