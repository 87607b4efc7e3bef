"""Mixture of softmaxes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from torch import nn

from nextword.distribution import Mixture, NextToken, SoftmaxDistribution
from nextword.heads.context import Context
from nextword.heads.gate import DynamicGate, Gate, StaticGate, UniformGate
from nextword.heads.head import Head, HeadConfig, registry
from nextword.heads.input_states import Dimensions, MultiInputConfig, Projection
from nextword.heads.partitions import PartitionConfig, partition_of

_GATES: dict[str, type[Gate]] = {"dynamic": DynamicGate, "static": StaticGate, "uniform": UniformGate}
_NOISE = 0.01
"""Size of the noise in the projections of softmaxes with equal weights, relative to the state. It raises the loss of
SmolLM2-135M by 0.001 nats per token."""


class MixtureConfig(HeadConfig):
    """Settings of the mixture of softmaxes."""

    head: Literal["mos"] = "mos"
    components: int = Field(default=3, ge=1, le=1000)
    """K, the number of softmaxes. Each has its own projection (D² weights) and costs a product with all V tokens."""
    gate: Literal["dynamic", "static", "uniform"] = "dynamic"
    """Mixture weights: computed at each position (``dynamic``), a learned vector (``static``), 1 / K (``uniform``)."""
    partition: PartitionConfig | None = None
    """Partitions of the first softmax; None: no partitions."""
    mi: MultiInputConfig | None = None
    """Multiple input states; None: only the last state."""
    bias: bool = True
    """Whether the projections have a bias (published: GPT-2 yes, T5 no)."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parses the arguments of ``mos:3`` or ``mos:3,static``."""
        if not arguments:
            return {}
        if not arguments[0].isdecimal() or len(arguments) > 2 or arguments[1:] not in ([], *([g] for g in _GATES)):
            raise ValueError(
                f"must be followed by K or K,gate such as mos:3,static, with a gate from {', '.join(_GATES)} "
                f"({','.join(arguments)!r} given)"
            )
        return {"components": int(arguments[0])} | ({"gate": arguments[1]} if len(arguments) == 2 else {})

    def arguments(self) -> list[str]:
        return [str(self.components)] + ([self.gate] if self.gate != "dynamic" else [])


@registry.register("mos")
class MixtureOfSoftmaxes(Head):
    """Several softmaxes over one output embedding, mixed by a gate.

    Formula: ``P(w) = sum_i pi_i softmax_w(f_i . e_w)`` with ``f_i = S_i q_t + b_i`` and ``pi = softmax(G q_t + g)``
    (dynamic), ``softmax(r)`` (static) or ``1 / K`` (uniform). ``q_t`` is ``h_t``, or wider with ``+mi``; ``e_w`` is the
    output embedding of w; S_i, b_i, G, g and r are learned.

    Expresses: several modes far apart in embedding space ("king or woman, not queen"). The log of a sum removes the
    bound D + 1 on the rank of the log-probability matrix. Costs: K products with the output embedding.

    All projections start as the identity, so a pretrained model starts unchanged. The softmaxes become different in
    training, because the dynamic gate starts at random. With the other gates, the projections start with small noise.

    Partitions (``mos:3+cpr:20,100+mi``) change the scores of the first softmax only.

    Source: Yang et al. 2018; Softmax-CPR, rows "MoS", "MoS + Mi" and "MoS + CPR:20,100 + Mi".

    Differs from the published code: the mixture is computed in log space, without epsilon, and the noise is ours.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("mos:3,static").gate
        'static'
    """

    Config = MixtureConfig

    def __init__(self, config: MixtureConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        width = self.inputs.width
        noise = 0.0 if config.gate == "dynamic" else _NOISE  # equal softmaxes with equal weights would stay equal
        self.project = nn.ModuleList(
            Projection(width, dimensions.hidden, bias=config.bias, noise=noise) for _ in range(config.components)
        )
        self.partition = partition_of(config.partition, width, dimensions, config.bias)
        self.gate = _GATES[config.gate](width, config.components)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        vocabulary, inputs = context.vocabulary, context.inputs
        edits = [self.partition(context)] + [[]] * (len(self.project) - 1)
        parts = [
            SoftmaxDistribution(vocabulary, projection(inputs), edits=own, name=f"softmax {number}")
            for number, (projection, own) in enumerate(zip(self.project, edits, strict=True), start=1)
        ]
        return Mixture(parts, self.gate(inputs))
