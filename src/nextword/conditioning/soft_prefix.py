"""Soft prefix: a few vectors, computed from the auxiliary text, precede the decoder's text like token embeddings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from nextword.conditioning.conditioner import Conditioner, ConditionerConfig, one_number, registry
from nextword.heads import Dimensions

_DEFAULT_LENGTH = 8


class SoftPrefixConfig(ConditionerConfig):
    """Settings of the soft prefix."""

    conditioner: Literal["prefix"] = "prefix"
    length: int = Field(default=_DEFAULT_LENGTH, ge=1, le=100_000)
    """Number of vectors before a text. Each takes a position of the model."""
    start: Literal["random"] = "random"
    """Initial values of the new weights: always random, because a prefix cannot leave the predictions unchanged."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parses the arguments of a spec such as ``prefix:8``."""
        return one_number("length", arguments, "vectors such as prefix:8")

    def arguments(self) -> list[str]:
        """Returns the arguments of the spec: the length, unless it is the default."""
        return [str(self.length)] if self.length != _DEFAULT_LENGTH else []


@registry.register("prefix")
class SoftPrefixConditioner(Conditioner):
    """Vectors computed from the auxiliary text precede the decoder's text, in place of token embeddings.

    Formula: with the encoder's states y and a learned query u_p for each of the P positions::

        prefix_p = W sum_s softmax_s(u_p . y_s / sqrt(E)) y_s + b

    Effect: the frozen decoder reads the vectors like a prompt of P tokens, however long the auxiliary text is. Cost:
    ``P E + D E`` parameters, and P more positions in every layer's attention. Attaching a prefix changes the model's
    predictions: b is initialised to the mean input embedding, and W with small random weights.

    Source: our own, after prefix tuning (Li and Liang 2021) and prompt tuning (Lester et al. 2021), whose vectors do
    not depend on the input. The report with the other conditioners (He, Chen and Kim 2020) does not contain it.

    Examples:
        >>> from nextword.conditioning import parse_conditioner
        >>> parse_conditioner("prefix:4").length
        4
    """

    Config = SoftPrefixConfig

    def __init__(self, config: SoftPrefixConfig, dimensions: Dimensions, attention_heads: int) -> None:
        super().__init__(config, dimensions, attention_heads)
        self.virtual = config.length
        self.queries = nn.Parameter(torch.empty(config.length, self.width))
        self.project = nn.Linear(self.width, dimensions.layer)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the queries to small random numbers."""
        nn.init.normal_(self.queries, std=0.02)

    @torch.no_grad()
    def init_from_backbone(self, backbone: Any) -> None:
        """Initialises the weights so that the vectors are near the mean input embedding of the backbone.

        Raises:
            ValueError: If the backbone has too few positions, or its embeddings and layers differ in width.
        """
        limit = getattr(backbone.config.get_text_config(decoder=True), "max_position_embeddings", None)
        if limit is not None and self.virtual >= limit:
            raise ValueError(f"prefix.length: must be less than the model's {limit} positions ({self.virtual} given)")
        embedding = backbone.get_input_embeddings().weight
        if embedding.shape[1] != self.project.out_features:
            raise ValueError(
                f"prefix: {type(backbone).__name__} is not supported, because its embeddings have width "
                f"{embedding.shape[1]} and its layers {self.project.out_features}; use dau or lmh"
            )
        self.project.bias.copy_(embedding.float().mean(0))
        nn.init.normal_(self.project.weight, std=embedding.float().std().item() / math.sqrt(self.width))

    def read(self, states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"]) -> dict[str, Tensor]:
        """Computes the vectors from the encoder's ``states``."""
        scores = torch.einsum("pe,bae->bpa", self.queries, states) / math.sqrt(self.width)
        weights = scores.masked_fill(~valid[:, None], -torch.inf).softmax(-1)
        return {"embeddings": self.project(weights @ states)}

    def downstream(self, backbone: Any) -> list[nn.Parameter]:
        """Returns all parameters of the backbone, because every layer reads the prefix."""
        return list(backbone.parameters())

    def before_text(self, kept: Mapping[str, Tensor]) -> Float[Tensor, "B P D"]:
        """Returns the vectors that ``read`` computed."""
        return kept["embeddings"]
