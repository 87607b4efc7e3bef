"""CopyNet: places of the text or source compete with the softmax for probability."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import nn

from nextword.context import Context
from nextword.distribution import NextToken, Scores
from nextword.heads.head import Head, registry
from nextword.heads.parts.dimensions import Dimensions
from nextword.heads.parts.input_states import Projection
from nextword.heads.parts.local_embeddings import LocalEmbeddings, PointerConfig


class CopyNetConfig(PointerConfig):
    """Settings of the CopyNet head."""

    head: Literal["copynet"] = "copynet"
    tanh: bool = True
    """Whether local embeddings pass through a tanh; without it this is the published "cache"."""
    initial_bias: float = Field(default=0.0, allow_inf_nan=False)
    """Where the bias of the copying scores starts. Negative values copy less at first: the scores start at 0, so a
    pretrained model whose scores are all far below that would do nothing but copy."""


@registry.register("copynet")
class CopyNetHead(Head):
    """Places of the past or of the source compete with the softmax, normalised together.

    Formula: with ``z = (S q_t + b) . w_v`` and ``c_s = PD q_t . tanh(LD q_s) + beta``::

        P(v) = (exp z_v + sum_{s: x_s = v} exp c_s) / (sum_u exp z_u + sum_s exp c_s)

    Decoder-only models copy places ``s < t`` of their own text, encoder-decoder models the places of the source (``LE``
    of the encoder's states in place of ``LD q_s``). Padding is never copied.

    Expresses: a place that fits can win whatever its word's output embedding says; scores of places add up in
    probability, so a word that occurs often is copied more. Costs: three D x D projections
    and one T x T product.

    Attached to a pretrained model it changes the distribution: every place starts with the mass ``exp(beta)``.

    Source: Gu et al. 2016 (CopyNet); Softmax-CPR, row "CopyNet".

    Differs from the published code: ``beta`` counts in decoder-only models too (there it was made and never used); no
    1e-20 is added; padding of the source is not copied.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("copynet+mi").tanh
        True
    """

    Config = CopyNetConfig

    def __init__(self, config: CopyNetConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        width = self.inputs.width
        self.project = Projection(width, dimensions.hidden, bias=config.bias)
        self.local = LocalEmbeddings.of_pointer(config, width, dimensions, torch.tanh if config.tanh else None)
        self.bias = nn.Parameter(torch.full((1,), config.initial_bias))

    def reset_parameters(self) -> None:
        """The bias where the config puts it."""
        nn.init.constant_(self.bias, self.config.initial_bias)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """Softmax and places, normalised together."""
        entries = self.local.entries(context)
        biased = replace(entries, scores=entries.scores + self.bias.to(entries.scores.dtype))
        return Scores(context.vocabulary, self.project(context.inputs), stored={"pointer": biased})
