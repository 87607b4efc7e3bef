"""Cache language model: tokens of the earlier text or the source, stored with states, compete with the softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from nextword.distribution import CacheDistribution, NextToken, PointerMixture, SoftmaxDistribution
from nextword.functional.copy_scores import CopyScores, TextRead
from nextword.functional.keys_in_place import Keys
from nextword.functional.probability import at_least_float32
from nextword.heads.calibration import Calibration, CopyCalibration
from nextword.heads.context import Context, Layout
from nextword.heads.head import FITTED, ContextOf, Fitted, Head, HeadConfig, registry
from nextword.heads.input_states import Dimensions
from nextword.heads.local_embeddings import source_positions
from nextword.heads.safe_start import fitted_temperature, probe_tokens, unobtrusive_share

_STREAM = "keys"


class CacheConfig(HeadConfig):
    """Settings of the cache head. All of them can be changed on a trained model."""

    published: ClassVar[Mapping[str, Any]] = {"temperature": 1.0, "weight": None}

    head: Literal["cache"] = "cache"
    mode: Literal["joint", "cache_only", "lm_only"] = "joint"
    """Distribution that the model uses: softmax and cache together, the cache alone, or the softmax alone."""
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Fitted = FITTED
    """Number that similarities (not the softmax scores) are divided by. A larger number makes the cache's distribution
    flatter. ``fitted``: chosen from the norm of the model's states when the head is attached. Published: 1."""
    weight: Annotated[float, Field(ge=0, le=1)] | Fitted | None = FITTED
    """Share of the cache in a linear interpolation with the softmax. ``fitted``: a share of at most 0.03 that rarely
    changes the model's most likely token. None: softmax and cache are normalised together (published)."""
    long: int | None = Field(default=None, ge=1, le=100_000_000)
    """Number of previous positions that the cache contains, also from earlier windows if a long text is scored or
    continued. None: all positions of the current window."""

    def to_fine_tune(self) -> CacheConfig:
        """These settings with None for a ``fitted`` weight: training normalises softmax and cache together."""
        return self.model_copy(update={"weight": None}) if self.weight == FITTED else self


@registry.register("cache")
class CacheHead(Head):
    """The softmax mixed with stored tokens, which are scored by the similarity of states; no new parameters.

    Formula, if ``weight`` is None: with the softmax's score ``z_w`` of a token w, stored pairs of a state ``k_j`` and a
    token ``x_j``, and similarities ``s_j = h_t . k_j / (sqrt(D) temperature)`` to the current state ``h_t``::

        P(w) = (exp z_w + sum_{j: x_j = w} exp s_j) / (sum_v exp z_v + sum_j exp s_j)

    Decoder-only models store ``(h_j, x_{j+1})``, the state with the token that followed it, visible from position
    ``j + 1`` on. Encoder-decoder models store the encoder's states with the source tokens. Padding is never stored.

    Expresses: tokens of the context can become likely without a matching output embedding. The rank of the
    log-probability matrix is not bounded by D + 1. Costs: one T x T product. Training with ``weight`` None and ``mle``
    is TRIME.

    With a number as ``weight``, the distribution is ``(1 - weight) softmax + weight P_cache``, where ``P_cache(w)`` is
    ``sum_{j: x_j = w} exp s_j / sum_j exp s_j`` (Grave et al. 2017; TRIME's linear mode). While nothing is stored, the
    distribution is that of the softmax, in mode ``cache_only`` too.

    ``cache:published`` has ``weight`` None and temperature 1. On a pretrained model, whose states have large norms, the
    cache then dominates the softmax until the model is trained. ``cache`` starts with a temperature that fits the norms
    and a ``weight`` of at most 0.03, which costs at most 0.031 nats per token on any text. ``nw.calibrate`` chooses
    better settings on your text.

    ``long`` is the largest number of earlier positions that a position sees. It may exceed the backbone's window
    (TRIME's long-term memory). Each position is stored once, with the state that predicted its next token. A
    start token begins a new document, whose positions do not see the previous document.

    Source: Grave et al. 2017; TRIME, Zhong et al. 2022; HistAlign, eq. 2 and 3.

    Differs from the published code: masked similarities are -inf, not -10000; stored tokens are kept during decoding
    with a KV cache; states at padding are never stored; by default softmax and cache are mixed (released GPT-2 code:
    cache only); a position that is in two windows is stored once (TRIME's released code: twice).

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head({"head": "cache", "weight": 0.1}).mode
        'joint'
        >>> parse_head("cache:published").weight is None
        True
    """

    Config = CacheConfig
    modes: ClassVar[tuple[str, ...]] = ("joint", "cache_only", "lm_only")
    adjustable: ClassVar[frozenset[str]] = frozenset({"mode", "temperature", "weight", "long"})

    def __init__(self, config: CacheConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        if dimensions.is_encoder_decoder and dimensions.source != dimensions.hidden:
            raise ValueError(
                f"cache: the encoder's states are {dimensions.source} wide and the output layer reads "
                f"{dimensions.hidden}; their dot product needs equal widths"
            )
        if dimensions.is_encoder_decoder and config.long is not None:
            raise ValueError(
                f"long: must be left out with an encoder-decoder model, which reads a source ({config.long:,} given)"
            )

    @property
    def remembers(self) -> bool:
        return not self.dimensions.is_encoder_decoder

    @property
    def reads_source(self) -> bool:
        return self.dimensions.is_encoder_decoder

    @property
    def looks_back(self) -> int | None:
        return self.config.long  # type: ignore[no-any-return]

    @property
    def _temperature(self) -> float:
        return float(self.config.as_published().temperature)

    @torch.no_grad()
    def init_from_backbone(self, context_of: ContextOf) -> None:
        """Fits ``temperature`` and ``weight`` to the model, each if it is ``fitted``."""
        if FITTED not in (self.config.temperature, self.config.weight):
            return
        context = context_of(probe_tokens(self.dimensions.vocab_size))
        if self.config.temperature == FITTED:
            keys = context.states if context.source is None else context.source.states
            self.config = self.config.model_copy(update={"temperature": fitted_temperature(context.states, keys)})
        if self.config.weight == FITTED:
            share = unobtrusive_share(SoftmaxDistribution(context.vocabulary, context.states), self.entries(context))
            self.config = self.config.model_copy(update={"weight": share})

    def streams(self, states: Float[Tensor, "B T D"], inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        return {_STREAM: states}  # a state becomes a key when the token after it is known

    def entries(self, context: Context) -> CopyScores:
        stored = self._stored(context, self._temperature)
        return stored.with_scores(context.similarities(stored.queries, stored.keys))

    def calibration(self) -> Calibration | None:
        if self.config.mode != "joint":  # with one part alone, these settings change nothing
            return None
        return CopyCalibration(
            lambda context: (SoftmaxDistribution(context.vocabulary, context.states), self._stored(context, 1.0)),
            interpolated=True, joint=True,
        )  # fmt: skip

    def _stored(self, context: Context, temperature: float) -> LazyCopyScores:
        keys: Keys
        if context.source is not None:
            ids, keys = context.source.ids, at_least_float32(context.source.states)
            stored, visible = context.source.valid, source_positions(context)
            first_position = 0
        else:
            assert context.memory is not None
            memory = context.memory
            ids, keys = memory.ids[:, 1:], memory.keys(_STREAM)[:, :-1]
            position = torch.arange(1, memory.ids.shape[1], device=ids.device)
            first_position = 1  # the stored token is the token after each state
            stored = memory.valid[:, 1:] & memory.valid[:, :-1] & (ids < context.vocabulary.size)
            visible = stored[context.row] & (position <= context.position[:, None])
            if memory.document is not None:
                visible &= position > memory.begins()[context.row, context.position][:, None]
            if self.config.long is not None:
                visible &= position > context.position[:, None] - self.config.long
        queries = at_least_float32(context.states) / (math.sqrt(self.dimensions.hidden) * temperature)
        text: TextRead = "text" if context.source is None else "source"
        return LazyCopyScores(ids, context.row, queries, keys, visible, first_position, stored, text)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        mode = mode or self.config.mode
        softmax = SoftmaxDistribution(context.vocabulary, context.states)
        if mode == "lm_only":
            return softmax
        share = self.config.as_published().weight
        if mode == "joint" and share is None:
            # with gradients or a long memory, similarities are computed for a chunk of positions at a time
            in_chunks = torch.is_grad_enabled() or (self.config.long is not None and context.layout.width > 1)
            stored = self._stored(context, self._temperature) if in_chunks else self.entries(context)
            return SoftmaxDistribution(context.vocabulary, context.states, stored={"cache": stored})
        entries = self.entries(context)
        if mode == "cache_only":
            return CacheDistribution(entries, softmax)
        shares = entries.scores.new_tensor([1 - share, share]).log()
        of_softmax, of_cache = shares[:, None].expand(2, len(softmax))
        return PointerMixture(softmax, entries, of_softmax, of_cache, name="cache")


# -- Stored tokens whose scores are similarities of states, computed only for the positions of a chunk.


@dataclass(frozen=True)
class LazyCopyScores:
    """Cache entries of N positions, whose scores (N, S) are not computed yet.

    Args:
        ids: Token of each entry of each sequence.
        row: Sequence index of each position, ascending.
        queries: Query vector of each position.
        keys: Key vector of each entry.
        visible: True for the entries that a position may see.
        first_position, stored, text: See ``CopyScores``.
    """

    ids: Int[Tensor, "B S"]
    row: Int[Tensor, "N"]
    queries: Float[Tensor, "N D"]
    keys: Keys
    visible: Bool[Tensor, "N S"]
    first_position: int
    stored: Bool[Tensor, "B S"]
    text: TextRead = "text"

    def map(self, change: Callable[[Tensor], Tensor]) -> LazyCopyScores:
        queries, visible = change(self.queries), change(self.visible)
        return replace(self, row=change(self.row), queries=queries, visible=visible)

    def shared(self) -> Sequence[Tensor]:
        return [self.keys] if isinstance(self.keys, Tensor) else []

    def with_scores(self, scores: Float[Tensor, "N S"]) -> CopyScores:
        return CopyScores(self.ids, self.row, scores, self.visible, self.first_position, self.stored, self.text)

    def scored(self) -> CopyScores:
        """The entries with their scores (query times key); keys of sequences without positions are not read."""
        if not len(self.row):
            return self.with_scores(self.queries.new_zeros(0, self.keys.shape[1]))
        layout, rows = Layout(self.row, len(self.ids)).occupied()
        return self.with_scores(layout.similarities(self.queries, self.keys[rows]))
