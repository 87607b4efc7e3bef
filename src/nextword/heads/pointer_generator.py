"""Pointer generator: a gate chooses between the softmax and attention over the text or source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from nextword.distribution import Interpolated, NextToken, Scores
from nextword.functional.additive_attention import additive_scores
from nextword.functional.entries import Entries
from nextword.heads.context import Context
from nextword.heads.gate import ScalarGate
from nextword.heads.head import FITTED, Fitted, Head, registry
from nextword.heads.input_states import Dimensions, Projection
from nextword.heads.local_embeddings import LocalEmbeddings, PointerConfig
from nextword.heads.safe_start import closed_gate, probe_tokens, unobtrusive_share

_COPY_LITTLE = 3.0
"""Where the gate's bias starts in an encoder-decoder model (published), so that 95 % is generated at first."""


class PointerGeneratorConfig(PointerConfig):
    """Settings of the pointer generator."""

    published: ClassVar[Mapping[str, Any]] = {"gate_bias": None}

    head: Literal["pg"] = "pg"
    gate_bias: Annotated[float, Field(allow_inf_nan=False)] | Fitted | None = FITTED
    """Where the gate's bias starts; above 0 generates more. ``fitted``: so that at most 3 % is copied, and the model's
    likeliest token stays what it was; the gate's weights start at zero then. None: 0 for a decoder-only model and 3
    for an encoder-decoder, as published."""


@registry.register("pg")
class PointerGeneratorHead(Head):
    """A gate between the softmax and additive attention over the past or the source.

    Formula: with ``z = (S q_t + b) . w_v``, ``a = softmax_s(att . tanh(PD q_t + LD q_s + att_b))`` over the visible
    places and ``g_t = sigmoid(w_g . h_t + b_g)``::

        P(v) = g_t softmax(z)_v + (1 - g_t) sum_{s: x_s = v} a_s

    Decoder-only models point at places ``s < t`` of their own text, encoder-decoder models into the source (``LE`` of
    the encoder's states in place of ``LD q_s``). Padding is never pointed at; where nothing is visible ``g = 1``.

    Expresses: copies whatever the output embedding says of a word. Costs: three D x D projections, and additive
    attention in O(T T D) time, in chunks of memory.

    Attention starts uniform. Attached to a pretrained model the gate starts nearly closed (``gate_bias``), so the
    distribution is nearly the model's; ``pg:published`` starts it half open, with small random weights, as training
    does. It learns slowly at first: what attention depends on is a product of three maps that all start at (almost)
    zero.

    Source: See et al. 2017 (pointer generator); Softmax-CPR, rows "PG" and "PG + Mi".

    Differs from the published code: attention is normalised over the places that are visible; there over all, those to
    come included, so that rows did not sum to one and saw the future.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("pg:published+mi").gate_bias is None
        True
    """

    Config = PointerGeneratorConfig

    def __init__(self, config: PointerGeneratorConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        width = self.inputs.width
        self.project = Projection(width, dimensions.hidden, bias=config.bias)
        self.local = LocalEmbeddings.of_pointer(config, width, dimensions)
        self.attention_vector = nn.Parameter(torch.zeros(dimensions.hidden))
        self.attention_bias = nn.Parameter(torch.zeros(dimensions.hidden))
        bias = config.as_published().gate_bias
        if bias is None:
            bias = 0.0 if dimensions.source is None else _COPY_LITTLE
        self.gate = ScalarGate(dimensions.hidden, bias)

    def reset_parameters(self) -> None:
        """Uniform attention."""
        nn.init.zeros_(self.attention_vector)
        nn.init.zeros_(self.attention_bias)

    @torch.no_grad()
    def begin(self, context_of: Callable[[Int[Tensor, "M"]], Context]) -> None:
        """The gate nearly closed, unless its bias was chosen."""
        if self.config.gate_bias != FITTED:
            return
        context = context_of(probe_tokens(self.dimensions.vocab_size))
        self.gate.start_at(closed_gate(unobtrusive_share(self._softmax(context), self._attention(context))))

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """Softmax and attention, weighed by the gate."""
        gate = self.gate(context.states)
        return Interpolated(self._softmax(context), self._attention(context), F.logsigmoid(gate), F.logsigmoid(-gate))

    def _softmax(self, context: Context) -> Scores:
        return Scores(context.vocabulary, self.project(context.inputs))

    def _attention(self, context: Context) -> Entries:
        ids, keys, visible = self.local.places(context)
        queries = self.local.queries(context) + self.attention_bias
        with torch.autocast(queries.device.type, enabled=False):
            vector = self.attention_vector.to(queries.dtype)
            scores = additive_scores(context.layout.pack(queries), keys, vector, self._reach(context))
        return Entries(ids, context.row, context.layout.unpack(scores), visible, text=self.local.text)

    def _reach(self, context: Context) -> Int[Tensor, "Q"] | None:
        """How many places the positions in each column of the layout see at most; None where it is no fewer than all.

        A compiled step has one position a sequence, and may not look at it.
        """
        if self.local.reads_source or torch.compiler.is_compiling():
            return None
        last = context.position + self.config.include_current
        return context.layout.pack(last[:, None].float()).amax((0, 2)).long()
