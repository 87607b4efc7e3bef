"""Soft prefix: a few vectors made of the auxiliary text stand before the decoder's text, as if they were words."""

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
    """Number of vectors before a text; they take so many of the model's positions."""
    start: Literal["random"] = "random"
    """New weights begin at random: words before a text cannot be without effect."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``prefix:8``."""
        return one_number("length", arguments, "vectors such as prefix:8")

    def arguments(self) -> list[str]:
        """The length where it is not the default."""
        return [str(self.length)] if self.length != _DEFAULT_LENGTH else []


@registry.register("prefix")
class SoftPrefixConditioner(Conditioner):
    """Vectors made of the auxiliary text stand before the decoder's text, in place of embeddings of words.

    Formula: with the encoder's states y and a learned query u_p for each of the P positions::

        prefix_p = W sum_s softmax_s(u_p . y_s / sqrt(E)) y_s + b

    Expresses: what a prompt can tell a frozen decoder, in P positions instead of the whole auxiliary text. Costs:
    ``P E + D E`` parameters, and P more positions in every layer's attention. Attached to a model it changes its
    distribution: b starts at the mean input embedding and W with small random weights.

    Source: ours, after prefix tuning (Li and Liang 2021) and prompt tuning (Lester et al. 2021), whose vectors do not
    depend on the input. Not in the paper of the other conditioners.

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
        """Small random queries."""
        nn.init.normal_(self.queries, std=0.02)

    @torch.no_grad()
    def init_from_backbone(self, backbone: Any) -> None:
        """Positions that look like a word of no kind."""
        limit = getattr(backbone.config.get_text_config(decoder=True), "max_position_embeddings", None)
        if limit is not None and self.virtual >= limit:
            raise ValueError(f"prefix: {self.virtual} vectors leave no room for a text in a model of {limit} positions")
        embedding = backbone.get_input_embeddings().weight
        if embedding.shape[1] != self.project.out_features:
            raise ValueError(
                f"prefix: {type(backbone).__name__} embeds words in {embedding.shape[1]} dimensions, and its layers "
                f"have {self.project.out_features}"
            )
        self.project.bias.copy_(embedding.float().mean(0))
        nn.init.normal_(self.project.weight, std=embedding.float().std().item() / math.sqrt(self.width))

    def read(self, states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"]) -> dict[str, Tensor]:
        """The vectors."""
        scores = torch.einsum("pe,bae->bpa", self.queries, states) / math.sqrt(self.width)
        weights = scores.masked_fill(~valid[:, None], -torch.inf).softmax(-1)
        return {"embeddings": self.project(weights @ states)}

    def downstream(self, backbone: Any) -> list[nn.Parameter]:
        """All: it stands before everything."""
        return list(backbone.parameters())

    def before_text(self, kept: Mapping[str, Tensor]) -> Float[Tensor, "B P D"]:
        """The vectors."""
        return kept["embeddings"]
