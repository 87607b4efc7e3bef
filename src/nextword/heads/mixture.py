"""Mixture of softmaxes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from nextword.context import Context
from nextword.distribution import Mixture, NextToken, Scores
from nextword.functional.logspace import at_least_float32
from nextword.heads.dimensions import Dimensions
from nextword.heads.head import Head, HeadConfig, registry
from nextword.heads.inputs import MultiInputConfig, Projection


class Gate(nn.Module, ABC):
    """Weights of K parts at each position, in log space.

    Args:
        width: Width of what the gate reads.
        parts: K.
    """

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
        """Log-weights of each position."""
        return at_least_float32(self.linear(inputs)).log_softmax(-1)


class StaticGate(Gate):
    """``softmax(r)``: learned weights, the same at every position."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__(width, parts)
        self.scores = nn.Parameter(torch.ones(parts))

    def reset_parameters(self) -> None:
        """Equal weights."""
        nn.init.ones_(self.scores)

    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        """The same log-weights at each position."""
        return at_least_float32(self.scores).log_softmax(-1).expand(len(inputs), -1)


class UniformGate(Gate):
    """``1 / K``."""

    def forward(self, inputs: Float[Tensor, "N Q"]) -> Float[Tensor, "N K"]:
        """Equal log-weights."""
        return at_least_float32(inputs.new_zeros(len(inputs), self.parts)).log_softmax(-1)


_GATES: dict[str, type[Gate]] = {"dynamic": DynamicGate, "static": StaticGate, "uniform": UniformGate}


class MixtureConfig(HeadConfig):
    """Settings of the mixture of softmaxes."""

    head: Literal["mos"] = "mos"
    components: int = Field(default=3, ge=1)
    """K, the number of softmaxes."""
    gate: Literal["dynamic", "static", "uniform"] = "dynamic"
    """Where the weights come from: each position, one learned vector, or 1 / K."""
    mi: MultiInputConfig | None = None
    """Multiple input states; None reads the last state alone."""
    bias: bool = True
    """Whether the projections have a bias (published: GPT-2 yes, T5 no)."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``mos:3`` or ``mos:3,static``."""
        if not arguments:
            return {}
        if not arguments[0].isdecimal() or len(arguments) > 2 or arguments[1:] not in ([], *([g] for g in _GATES)):
            raise ValueError(f"'mos' is followed by K or K,gate such as mos:3,static; gates: {', '.join(_GATES)}")
        return {"components": int(arguments[0])} | ({"gate": arguments[1]} if len(arguments) == 2 else {})

    def arguments(self) -> list[str]:
        """K, and the gate where it is not dynamic."""
        return [str(self.components)] + ([self.gate] if self.gate != "dynamic" else [])


@registry.register("mos")
class MixtureOfSoftmaxes(Head):
    """Several softmaxes over one output embedding, blended by a gate.

    Formula: ``P(w) = sum_i pi_i softmax_w(f_i . e_w)`` with ``f_i = S_i q_t + b_i`` and ``pi = softmax(G q_t + g)``
    (dynamic), ``softmax(r)`` (static) or ``1 / K`` (uniform).

    Expresses: several modes far apart in embedding space ("king or woman, not queen"); the log of a sum lifts the rank
    bound. Costs: K products with the output embedding.

    All projections start as the identity, so an attached pretrained model starts unchanged; the gate, started at
    random, is what makes the components part.

    Source: Yang et al. 2018; Softmax-CPR, rows "MoS" and "MoS + Mi".

    Differs from the published code: the blend is taken in log space, without epsilon.

    Example:
        >>> from nextword.heads import parse_head
        >>> parse_head("mos:3,static").gate
        'static'
    """

    Config = MixtureConfig

    def __init__(self, config: MixtureConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        width = self.inputs.width
        self.project = nn.ModuleList(
            Projection(width, dimensions.hidden, bias=config.bias) for _ in range(config.components)
        )
        self.gate = _GATES[config.gate](width, config.components)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """The blend of K softmaxes."""
        inputs = self.inputs(context)
        vocabulary = context.vocabulary
        parts = [Scores(vocabulary, f(inputs), name=f"softmax {i}") for i, f in enumerate(self.project, start=1)]
        return Mixture(parts, self.gate(inputs))
