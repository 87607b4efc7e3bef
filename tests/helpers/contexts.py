"""Contexts made of plain tensors, for testing heads and objectives without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nextword.functional.vocab_shard import ALL_COLUMNS, VocabShard
from nextword.heads import Dimensions, Head, parse_head, registry
from nextword.heads.context import Context, Layout, Source
from nextword.model.head_cache.head_cache import DynamicHeadCache


@dataclass
class LinearVocabulary:
    """``states @ weight.T + bias``."""

    weight: Tensor
    bias: Tensor | None = None

    @property
    def size(self) -> int:
        return len(self.weight)

    @property
    def columns(self) -> VocabShard:
        return ALL_COLUMNS

    def __call__(self, states: Tensor, fused_backward: object = None) -> Tensor:
        return torch.nn.functional.linear(states, self.weight, self.bias)

    def scores_of(self, states: Tensor, ids: Tensor, fused_backward: object = None) -> Tensor:
        scores = states @ self.weight[ids].mT
        return scores if self.bias is None else scores + self.bias[ids][:, None]

    def each(self, states: Sequence[Tensor], fused_backward: object = None) -> list[Tensor]:
        return [self(own) for own in states]

    def map(self, change: object) -> LinearVocabulary:
        return self

    def shared(self) -> list[Tensor]:
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    def scores_of_groups(
        self, states: Sequence[Tensor], ids: Sequence[Tensor], rows: Sequence[Tensor], fused_backward: object = None
    ) -> list[Tensor]:
        return [self(own)[:, group] for own, group in zip(states, ids, strict=True)]


def build_head(spec: object, width: int, vocab_size: int, *, layers: int = 3, source: int | None = None) -> Head:
    """A head in float64."""
    config = parse_head(spec)
    dimensions = Dimensions(hidden=width, layer=width, layers=layers, vocab_size=vocab_size, source=source)
    return registry.get(config.head)(config, dimensions).double()


def decoder_context(
    head: Head,
    states: Tensor,
    ids: Tensor,
    vocabulary: LinearVocabulary,
    *,
    layers: tuple[Tensor, ...] = (),
    mask: Tensor | None = None,
    counted: Tensor | None = None,
    embedding: Tensor | None = None,
    labels: Tensor | None = None,
    source: Source | None = None,
) -> Context:
    """The context of a decoder; ``counted`` (B, T) picks positions, all by default."""
    counted = torch.ones_like(ids, dtype=torch.bool) if counted is None else counted
    valid = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    row, place = counted.nonzero(as_tuple=True)
    head_cache = DynamicHeadCache()
    inputs = head.inputs(states, layers[: head.layers], valid, head_cache)
    head_cache.remember(ids, valid, head.streams(states, inputs))
    memory = head_cache.recall()
    memory = replace(memory, labels=labels) if head.remembers else None
    if source is not None:
        source = replace(source, streams=head.source_streams(source.states))
    layout = Layout(row, len(ids))
    output = getattr(vocabulary, "weight", None)
    return Context(states[row, place], inputs[row, place], place, layout, vocabulary, memory, source, embedding, output)


def seq2seq_context(
    states: Tensor,
    vocabulary: LinearVocabulary,
    source: Source,
    *,
    head: Head | None = None,
    ids: Tensor | None = None,
    mask: Tensor | None = None,
    layers: tuple[Tensor, ...] = (),
    counted: Tensor | None = None,
    embedding: Tensor | None = None,
) -> Context:
    """The context of an encoder-decoder model; without ``head`` that of one without decoder memory."""
    if head is not None:
        ids = torch.zeros(states.shape[:2], dtype=torch.long) if ids is None else ids
        return decoder_context(
            head, states, ids, vocabulary, layers=layers, mask=mask, counted=counted, embedding=embedding, source=source
        )
    counted = torch.ones(states.shape[:2], dtype=torch.bool) if counted is None else counted
    row, place = counted.nonzero(as_tuple=True)
    read = states[row, place]
    output = getattr(vocabulary, "weight", None)
    return Context(read, read, place, Layout(row, len(states)), vocabulary, None, source, embedding, output)
