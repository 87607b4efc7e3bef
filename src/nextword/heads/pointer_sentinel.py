"""Pointer sentinel: attention over the text or source, with a sentinel whose share goes to the softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch.nn import functional as F

from nextword.distribution import NextToken, PointerMixture, SoftmaxDistribution
from nextword.heads.context import Context
from nextword.heads.gate import ScalarGate
from nextword.heads.head import FITTED, ContextOf, Fitted, Head, registry
from nextword.heads.input_states import Dimensions, Projection
from nextword.heads.local_embeddings import LocalEmbeddings, PointerConfig
from nextword.heads.safe_start import closed_gate, probe_tokens, unobtrusive_share


class PointerSentinelConfig(PointerConfig):
    """Settings of the pointer sentinel."""

    published: ClassVar[Mapping[str, Any]] = {"gate_bias": 0.0}

    head: Literal["ps"] = "ps"
    gate_bias: Annotated[float, Field(allow_inf_nan=False)] | Fitted = FITTED
    """Initial bias of the sentinel's score, which competes with the scores of all visible positions. ``fitted``: even
    in the longest text that the model supports, copying has at most 3 % of the probability, and the model's most likely
    token rarely changes; the weights ``w_g`` then start at zero. Published: 0."""


@registry.register("ps")
class PointerSentinelHead(Head):
    """Attention over a sentinel and either earlier positions or the source; the sentinel's share goes to the softmax.

    Formula: with ``z_v = (S q_t + b) . w_v``, ``c_s = PD q_t . tanh(LD q_s)`` over the visible positions and the
    sentinel's score ``k_t = w_g . h_t + b_g``, where ``q_t`` is the input of the learned projections S, PD and LD
    (``h_t``, or a wider vector with ``+mi``) and ``w_v`` the output embedding of v::

        (a, g_t) = softmax([c, k_t])
        P(v) = g_t softmax(z)_v + sum_{s: x_s = v} a_s

    The head points at positions ``s < t`` of the decoder's text or, in an encoder-decoder model and with a conditioner,
    of the source (with a learned projection of the encoder's states in place of ``LD q_s``). Attention to padding is
    zero. If no position is visible, ``g_t = 1``.

    Expresses: copies of tokens, like ``pg``. The sentinel competes with each position, so the softmax gets most of the
    probability if no position matches. Costs: three D x D projections and one T x T product.

    On a pretrained model the sentinel starts with nearly all probability (``gate_bias``), so the distribution is nearly
    the model's. With ``ps:published``, and in new small models, it starts with a share of about 1 / (n + 1) among n
    positions.

    Source: Merity et al. 2017 (pointer sentinel); Softmax-CPR, rows "PS" and "PS + Mi".

    Differs from the published code: attention is normalised over the visible positions. The published code normalises
    over all positions, including future ones, so its rows do not sum to one and leak future tokens.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("ps+mi:1x3").mi.layers
        1
    """

    Config = PointerSentinelConfig

    def __init__(self, config: PointerSentinelConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        width = self.inputs.width
        self.project = Projection(width, dimensions.hidden, bias=config.bias)
        self.local = LocalEmbeddings.of_pointer(config, width, dimensions, torch.tanh)
        self.gate = ScalarGate(dimensions.hidden, config.as_published().gate_bias)

    @torch.no_grad()
    def init_from_backbone(self, context_of: ContextOf) -> None:
        """If ``gate_bias`` is ``fitted``, initialises the gate so that the sentinel has nearly all probability."""
        if self.config.gate_bias != FITTED:
            return
        context = context_of(probe_tokens(self.dimensions.vocab_size))
        share = unobtrusive_share(self._softmax(context), self.local.entries(context))
        self.gate.start_at(closed_gate(share) + math.log(self.dimensions.longest))  # each position has mass exp(0)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        entries, peak = self.local.entries(context).relative()
        sentinel = self.gate(context.states).to(peak.dtype) - peak
        # if nothing is visible, PointerMixture gives the softmax all mass; a finite number here avoids a NaN gradient
        lead = sentinel - torch.where(entries.any_visible(), entries.log_mass(), 0.0)
        return PointerMixture(self._softmax(context), entries, F.logsigmoid(lead), F.logsigmoid(-lead))

    def _softmax(self, context: Context) -> SoftmaxDistribution:
        return SoftmaxDistribution(context.vocabulary, self.project(context.inputs))
