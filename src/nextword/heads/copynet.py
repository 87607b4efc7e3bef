"""CopyNet: positions of the text or source and tokens of the vocabulary share one softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import nn

from nextword.distribution import NextToken, SoftmaxDistribution
from nextword.heads.context import Context
from nextword.heads.head import FITTED, ContextOf, Fitted, Head, registry
from nextword.heads.input_states import Dimensions, Projection
from nextword.heads.local_embeddings import LocalEmbeddings, PointerConfig
from nextword.heads.safe_start import closed_gate, probe_tokens, unobtrusive_share


class CopyNetConfig(PointerConfig):
    """Settings of the CopyNet head."""

    published: ClassVar[Mapping[str, Any]] = {"initial_bias": 0.0}

    head: Literal["copynet"] = "copynet"
    tanh: bool = True
    """Whether the local embeddings ``LD q_s`` pass through a tanh (without it: "cache" in the published code)."""
    initial_bias: Annotated[float, Field(allow_inf_nan=False)] | Fitted = FITTED
    """Initial bias of the copy scores, which are otherwise 0 at first. A lower bias copies less. With a bias of 0, a
    pretrained model with scores far below 0 would only copy. ``fitted``: a bias of at most 0 with which copying has at
    most 3 % of the probability in the longest text that the model supports. Published: 0."""


@registry.register("copynet")
class CopyNetHead(Head):
    """Earlier positions, or positions of the source, and the tokens of the vocabulary are normalised together.

    Formula: with ``z_v = (S q_t + b) . w_v`` and ``c_s = PD q_t . tanh(LD q_s) + beta``, where ``q_t`` is the input of
    the learned projections S, PD and LD (``h_t``, or a wider vector with ``+mi``), ``beta`` a learned bias and ``w_v``
    the output embedding of v::

        P(v) = (exp z_v + sum_{s: x_s = v} exp c_s) / (sum_u exp z_u + sum_s exp c_s)

    The head copies tokens at positions ``s < t`` of the decoder's text or, in an encoder-decoder model and with a
    conditioner, at positions of the source (with a learned projection of the encoder's states in place of ``LD q_s``).
    Padding is never copied.

    Expresses: a matching position can make its token likely whatever the output embedding of the token. Positions add
    up in probability, so a token that occurs often is copied more. Costs: three D x D projections and one T x T
    product.

    Every position starts with the mass ``exp(beta)``. On a pretrained model ``beta`` starts so low that the
    distribution is nearly the model's; ``copynet:published`` and new small models start with 0.

    Source: Gu et al. 2016 (CopyNet); Softmax-CPR, row "CopyNet".

    Differs from the published code: ``beta`` is used in decoder-only models too (the published code creates it but
    never uses it); 1e-20 is not added; padding of the source is not copied.

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
        self.bias = nn.Parameter(torch.full((1,), config.as_published().initial_bias))

    def reset_parameters(self) -> None:
        nn.init.constant_(self.bias, self.config.as_published().initial_bias)

    @torch.no_grad()
    def init_from_backbone(self, context_of: ContextOf) -> None:
        """If ``initial_bias`` is ``fitted``, sets the bias of the copy scores from the model's scores."""
        if self.config.initial_bias != FITTED:
            return
        context = context_of(probe_tokens(self.dimensions.vocab_size))
        softmax = self._softmax(context)
        share = unobtrusive_share(softmax, self.local.entries(context))
        first = context.row.new_zeros(len(context.states), 1)
        scores = context.vocabulary.scores_of(softmax.states[:, None], first)[:, 0]
        low = (scores - softmax.log_prob(first)).amin().item()  # log of the smallest normaliser
        self.bias.fill_(min(0.0, low - math.log(self.dimensions.longest) - closed_gate(share)))

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        entries = self.local.entries(context)
        biased = replace(entries, scores=entries.scores + self.bias.to(entries.scores.dtype))
        softmax = self._softmax(context)
        return softmax.beside({"pointer": biased})

    def _softmax(self, context: Context) -> SoftmaxDistribution:
        return SoftmaxDistribution(context.vocabulary, self.project(context.inputs))
