"""Cache-LM: the softmax competes with tokens stored in recent history or in the source."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, cast

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from nextword.context import Context
from nextword.distribution import Interpolated, NextToken, OnMemory, Scores
from nextword.functional.logspace import at_least_float32
from nextword.functional.products.keys_in_place import Keys
from nextword.functional.stored_entries import Entries, TextRead
from nextword.heads.head import Head, HeadConfig, registry
from nextword.heads.parts.dimensions import Dimensions
from nextword.heads.parts.stored_states import StoredStates
from nextword.heads.parts.visible import source_places

_STREAM = "keys"


class CacheConfig(HeadConfig):
    """Settings of the cache head; all of them may be changed on a trained model."""

    head: Literal["cache"] = "cache"
    mode: Literal["joint", "cache_only", "lm_only"] = "joint"
    """Which distribution the model uses: both parts, what is stored alone, or the softmax alone."""
    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Divides the similarities (not the softmax scores); above 1 flattens the cache."""
    weight: float | None = Field(default=None, ge=0, le=1)
    """None normalises softmax and cache together (eq. 3). A number is the share of the cache in a linear
    interpolation of the two."""
    long: int | None = Field(default=None, ge=1, le=100_000_000)
    """How many of the last places are seen, of windows that came before too, where a long text is scored or written on.
    None: those of the window."""


@registry.register("cache")
class CacheHead(Head):
    """Softmax and stored tokens, normalised together; no new parameters.

    Formula: with stored pairs of a state ``k_j`` and a token ``x_j`` and similarity ``s_j = h_t . k_j / sqrt(D)``::

        P(w) = (exp z_w + sum_{j: x_j = w} exp s_j) / (sum_v exp z_v + sum_j exp s_j)

    Decoder-only models store ``(h_j, x_{j+1})``, the state with the token that followed it, visible from place
    ``j + 1`` on. Encoder-decoder models store the encoder's states with the source tokens. Padding is never stored.

    Expresses: tokens of the context can win without a fitting output embedding; the rank of the log-probability matrix
    is no longer bounded by D + 1. Costs: one T x T product; training through this head with ``mle`` is TRIME.

    ``weight`` gives instead ``(1 - weight) softmax + weight P_cache`` (Grave et al. 2017; TRIME's linear mode). Where
    nothing is stored yet, the softmax speaks alone, in ``cache_only`` too.

    ``long`` bounds what a position sees by a number of places and not by the window: the memory may be longer than what
    the backbone sees at once (TRIME's long-term memory), or shorter. Each place is stored once, with the state of the
    window that predicted the token after it. A start token begins a document, which sees nothing of the one before.

    Source: Grave et al. 2017; TRIME, Zhong et al. 2022; HistAlign, eq. 2 and 3.

    Differs from the published code: masked similarities are -inf, not -10000; the memory survives cached decoding; a
    state at padding is never stored; the joint distribution is the default (released GPT-2 code: cache only); a place
    that two windows read is stored once (TRIME's released code: twice).

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head({"head": "cache", "weight": 0.1}).mode
        'joint'
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
        """A decoder-only model's memory is its own past."""
        return not self.dimensions.is_encoder_decoder

    @property
    def reads_source(self) -> bool:
        """An encoder-decoder model's memory is its source."""
        return self.dimensions.is_encoder_decoder

    @property
    def looks_back(self) -> int | None:
        """As far as it is set to."""
        return cast(CacheConfig, self.config).long

    def streams(self, states: Float[Tensor, "B T D"], inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        """Every state is a key once the token after it is known."""
        return {_STREAM: states}

    def entries(self, context: Context) -> Entries:
        """The stored tokens with their similarities."""
        stored = self._stored(context)
        return stored.with_scores(context.similarities(stored.queries, stored.keys))

    def _stored(self, context: Context) -> StoredStates:
        keys: Keys
        if context.source is not None:
            ids, keys = context.source.ids, at_least_float32(context.source.states)
            stored, visible = context.source.valid, source_places(context)
            first_place = 0
        else:
            assert context.memory is not None
            memory = context.memory
            ids, keys = memory.ids[:, 1:], memory.keys(_STREAM)[:, :-1]
            place = torch.arange(1, memory.ids.shape[1], device=ids.device)
            first_place = 1  # what is stored is the token after each state
            stored = memory.valid[:, 1:] & memory.valid[:, :-1] & (ids < context.vocabulary.size)
            visible = stored[context.row] & (place <= context.position[:, None])
            if memory.document is not None:
                visible &= place > memory.begins()[context.row, context.position][:, None]
            if self.config.long is not None:
                visible &= place > context.position[:, None] - self.config.long
        queries = at_least_float32(context.states) / (math.sqrt(self.dimensions.hidden) * self.config.temperature)
        text: TextRead = "text" if context.source is None else "source"
        return StoredStates(ids, context.row, queries, keys, visible, first_place, stored, text)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """The joint distribution, or one of its parts."""
        mode = mode or self.config.mode
        softmax = Scores(context.vocabulary, context.states)
        if mode == "lm_only":
            return softmax
        if mode == "joint" and self.config.weight is None:
            # where gradients are made similarities are, too, a chunk of positions at a time; and those of a long memory
            in_chunks = torch.is_grad_enabled() or (self.config.long is not None and context.layout.width > 1)
            stored = self._stored(context) if in_chunks else self.entries(context)
            return Scores(context.vocabulary, context.states, stored={"cache": stored})
        entries = self.entries(context)
        if mode == "cache_only":
            return OnMemory(entries, softmax)
        shares = entries.scores.new_tensor([1 - self.config.weight, self.config.weight]).log()
        of_softmax, of_cache = shares[:, None].expand(2, len(softmax))
        return Interpolated(softmax, entries, of_softmax, of_cache, name="cache")
