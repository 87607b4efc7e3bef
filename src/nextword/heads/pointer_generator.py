"""Pointer generator: a gate chooses between the softmax and attention over the text or source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from nextword.distribution import NextToken, PointerMixture, SoftmaxDistribution
from nextword.functional.copy_scores import CopyScores
from nextword.functional.keys_in_place import Keys, KeysInPlace, read_keys
from nextword.functional.weight_gradient import first_order
from nextword.heads.context import Context
from nextword.heads.gate import ScalarGate
from nextword.heads.head import FITTED, ContextOf, Fitted, Head, registry
from nextword.heads.input_states import Dimensions, Projection
from nextword.heads.local_embeddings import LocalEmbeddings, PointerConfig
from nextword.heads.safe_start import closed_gate, probe_tokens, unobtrusive_share

_COPY_LITTLE = 3.0
"""Initial bias of the gate in an encoder-decoder model (published): the softmax gets 95 % of the probability at
first."""


class PointerGeneratorConfig(PointerConfig):
    """Settings of the pointer generator."""

    published: ClassVar[Mapping[str, Any]] = {"gate_bias": None}

    head: Literal["pg"] = "pg"
    gate_bias: Annotated[float, Field(allow_inf_nan=False)] | Fitted | None = FITTED
    """Initial bias of the gate; a larger bias gives the softmax a larger weight. ``fitted``: copying has at most 3 % of
    the probability and the model's most likely token rarely changes; the gate's weights then start at zero. None: 3 if
    there is a source (an encoder-decoder model or a conditioner), otherwise 0 (published)."""


@registry.register("pg")
class PointerGeneratorHead(Head):
    """A gate mixes the softmax with additive attention over earlier positions or the source.

    Formula: with ``z_v = (S q_t + b) . w_v``, ``a = softmax_s(att . tanh(PD q_t + LD q_s + att_b))`` over the visible
    positions and ``g_t = sigmoid(w_g . h_t + b_g)``, where ``q_t`` is the input of the learned projections S, PD and LD
    (``h_t``, or a wider vector with ``+mi``), ``w_v`` the output embedding of v, and att and att_b are learned::

        P(v) = g_t softmax(z)_v + (1 - g_t) sum_{s: x_s = v} a_s

    The head points at positions ``s < t`` of the decoder's text or, in an encoder-decoder model and with a conditioner,
    of the source (with a learned projection of the encoder's states in place of ``LD q_s``). Attention to padding is
    zero. If no position is visible, ``g_t = 1``.

    Expresses: copies of tokens, independent of their output embeddings. Costs: three D x D projections, and additive
    attention in O(T T D) time, computed in chunks to save memory.

    Attention starts uniform. On a pretrained model, the gate gives attention little probability at first
    (``gate_bias``), so the distribution is nearly the model's. ``pg:published`` and new small models start with a
    bias of 0 or 3, which gives the softmax about 50 % or 95 %, and with small random gate weights. Learning is slow at
    first, because attention depends on a product of three linear maps that all start near zero.

    Source: See et al. 2017 (pointer generator); Softmax-CPR, rows "PG" and "PG + Mi".

    Differs from the published code: attention is normalised over the visible positions. The published code normalises
    over all positions, including future ones, so its rows do not sum to one and leak future tokens.

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
        nn.init.zeros_(self.attention_vector)
        nn.init.zeros_(self.attention_bias)

    @torch.no_grad()
    def init_from_backbone(self, context_of: ContextOf) -> None:
        """If ``gate_bias`` is ``fitted``, initialises the gate so that attention has little probability."""
        if self.config.gate_bias != FITTED:
            return
        context = context_of(probe_tokens(self.dimensions.vocab_size))
        self.gate.start_at(closed_gate(unobtrusive_share(self._softmax(context), self._attention(context))))

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        gate = self.gate(context.states)
        return PointerMixture(self._softmax(context), self._attention(context), F.logsigmoid(gate), F.logsigmoid(-gate))

    def _softmax(self, context: Context) -> SoftmaxDistribution:
        return SoftmaxDistribution(context.vocabulary, self.project(context.inputs))

    def _attention(self, context: Context) -> CopyScores:
        ids, keys, visible = self.local.positions(context)
        queries = self.local.queries(context) + self.attention_bias
        with torch.autocast(queries.device.type, enabled=False):
            vector = self.attention_vector.to(queries.dtype)
            scores = additive_scores(context.layout.pack(queries), keys, vector, self._reach(context))
        return CopyScores(ids, context.row, context.layout.unpack(scores), visible, text=self.local.text)

    def _reach(self, context: Context) -> Int[Tensor, "Q"] | None:
        """Maximum number of positions visible from each column of the layout; None if all are visible.

        A compiled decoding step has one position per sequence, and must not read tensor values.
        """
        if self.local.reads_source or torch.compiler.is_compiling():
            return None
        last = context.position + self.config.include_current
        return context.layout.pack(last[:, None].float()).amax((0, 2)).long()


# -- Additive attention scores in tiles: D numbers for every pair of query and key, of which only the sum is kept.

_CHUNK_BYTES = {"cpu": 2**20}
"""Bytes of the sums of one tile, by device; on a CPU, they fit into its cache (256 KiB to 1.5 MiB were tried)."""
_CHUNK_BYTES_ELSEWHERE = 2**26
_BY_TANH = frozenset({"cuda"})
"""Devices where tanh is limited by memory speed. On a CPU torch's sigmoid is six times as fast as its tanh."""


def additive_scores(
    queries: Float[Tensor, "B Q D"],
    keys: Keys,
    vector: Float[Tensor, "D"],
    reach: Int[Tensor, "Q"] | None = None,
) -> Float[Tensor, "B Q S"]:
    """Computes ``vector . tanh(q_t + k_s)`` (Bahdanau et al. 2015) in O(B Q S D) time, chunk by chunk to save memory.

    A chunk has some queries and some keys; the backward pass computes it again. Query t needs only the scores
    of the first ``reach[t]`` keys; its scores of later keys may be 0. If ``reach`` is None, it needs all scores.
    """
    size = keys.shape[1]
    widths = [size] * queries.shape[1] if reach is None else list(accumulate(reach.tolist(), max))
    learned = [tensor for tensor in (queries, keys, vector) if isinstance(tensor, Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in learned):
        scores: Tensor = _Additive.apply(queries, read_keys(keys), vector, widths)  # type: ignore[no-untyped-call]
        return scores
    if isinstance(keys, KeysInPlace):
        return keys.scored(queries, lambda own, kept: _scores(own, kept, vector, widths))
    return _scores(queries, keys, vector, widths)


def _tiles(queries: Tensor, widths: list[int]) -> Iterator[tuple[slice, slice]]:
    """Slices of the queries, each with the slices of keys that they need.

    Tiles have about as many queries as keys, so that sums over either are small compared with the tile.
    """
    budget = _CHUNK_BYTES.get(queries.device.type, _CHUNK_BYTES_ELSEWHERE)
    most = max(1, budget // max(1, queries.shape[0] * queries.shape[2] * queries.element_size()))
    side = math.isqrt(most)
    for start in range(0, len(widths), side):
        rows = slice(start, min(start + side, len(widths)))
        wide = most // (rows.stop - rows.start)
        for first in range(0, widths[rows.stop - 1], wide):
            yield rows, slice(first, min(first + wide, widths[rows.stop - 1]))


def _sigmoid_tiles(
    queries: Tensor, keys: Keys, widths: list[int]
) -> Iterator[tuple[slice, slice, Float[Tensor, "B _Q _S D"]]]:
    """Computes ``sigmoid(2 (q_t + k_s))`` tile by tile; all tiles share one buffer.

    ``tanh(x) = 2 sigmoid(2 x) - 1``.
    """
    buffer, doubled = queries.new_empty(0), 2 * queries
    for rows, columns in _tiles(queries, widths):
        q, own = doubled[:, rows, None], keys[:, columns]
        shape = (*q.shape[:2], *own.shape[1:])
        if len(buffer) < math.prod(shape):
            buffer = queries.new_empty(math.prod(shape))
        tile = buffer[: math.prod(shape)].view(shape)
        if isinstance(own, KeysInPlace) and shape[1] == 1:  # the usual step of generation: they fill the tile
            own = own.read(out=tile[:, 0])
        yield rows, columns, torch.add(q, read_keys(own)[:, None], alpha=2, out=tile).sigmoid_()


def _tanh_tiles(
    queries: Tensor, keys: Keys, widths: list[int]
) -> Iterator[tuple[slice, slice, Float[Tensor, "B _Q _S D"]]]:
    """Computes ``tanh(q_t + k_s)`` tile by tile."""
    for rows, columns in _tiles(queries, widths):
        yield rows, columns, torch.add(queries[:, rows, None], read_keys(keys[:, columns])[:, None]).tanh_()


def _scores(queries: Tensor, keys: Keys, vector: Tensor, widths: list[int]) -> Tensor:
    size = keys.shape[1]
    scores, widths = queries.new_zeros(*queries.shape[:2], size), [min(width, size) for width in widths]
    if queries.device.type in _BY_TANH:
        for rows, columns, tanh in _tanh_tiles(queries, keys, widths):
            scores[:, rows, columns] = tanh @ vector
        return scores
    twice, total = 2 * vector, vector.sum()
    for rows, columns, sigmoid in _sigmoid_tiles(queries, keys, widths):
        scores[:, rows, columns] = sigmoid @ twice - total
    return scores


class _Additive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, vector: Tensor, widths: list[int]) -> Tensor:
        ctx.save_for_backward(queries, keys, vector)
        ctx.widths = widths
        return _scores(queries, keys, vector, widths)

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, vector = ctx.saved_tensors
        of_queries, of_keys, of_vector = (torch.zeros_like(tensor) for tensor in (queries, keys, vector))
        if queries.device.type in _BY_TANH:  # here the time depends on how often a tile is read and written
            for rows, columns, tanh in _tanh_tiles(queries, keys, ctx.widths):
                tile = gradient[:, rows, columns]
                of_vector += tile.flatten() @ tanh.flatten(0, 2)
                inner = torch.ops.aten.tanh_backward.grad_input(tile[..., None], tanh, grad_input=tanh)
                of_queries[:, rows] += inner.sum(2)
                of_keys[:, columns] += inner.sum(1)
            return of_queries.mul_(vector), of_keys.mul_(vector), of_vector, None
        one = queries.new_ones(())
        for rows, columns, sigmoid in _sigmoid_tiles(queries, keys, ctx.widths):
            tile = gradient[:, rows, columns]
            tanh = sigmoid.mul_(2).sub_(1)
            of_vector += tile.flatten() @ tanh.flatten(0, 2)
            # d tanh(x) = 1 - tanh(x)^2, in place
            inner = torch.addcmul(one, tanh, tanh, value=-1, out=tanh)
            of_queries[:, rows] += (tile[:, :, None] @ inner)[:, :, 0]
            # a product with ones, because a sum over the first of several dimensions is several times slower on a CPU
            ones = one.expand(len(tile), 1, tile.shape[1])
            of_keys[:, columns] += (ones @ inner.mul_(tile[..., None]).flatten(2)).view(len(tile), -1, len(vector))
        return of_queries.mul_(vector), of_keys.mul_(vector), of_vector, None
