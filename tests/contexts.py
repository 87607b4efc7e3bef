"""Contexts made of plain tensors, for testing heads and objectives without a model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nextword.context import Context, Layout, Memory, Source
from nextword.heads import Dimensions, Head, parse_head, registry


@dataclass
class LinearVocabulary:
    """``states @ weight.T + bias``."""

    weight: Tensor
    bias: Tensor | None = None

    @property
    def size(self) -> int:
        return len(self.weight)

    def __call__(self, states: Tensor) -> Tensor:
        return torch.nn.functional.linear(states, self.weight, self.bias)


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
) -> Context:
    """The context of a decoder-only model; ``counted`` (B, T) picks positions, all by default."""
    counted = torch.ones_like(ids, dtype=torch.bool) if counted is None else counted
    valid = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    row, place = counted.nonzero(as_tuple=True)
    memory = Memory(ids, valid, head.streams(states, layers[: head.layers]), labels) if head.remembers else None
    layout = Layout(row, len(ids))
    return Context(states[row, place], place, layout, vocabulary, memory, None, embedding)


def seq2seq_context(
    states: Tensor,
    vocabulary: LinearVocabulary,
    source: Source,
    *,
    counted: Tensor | None = None,
    embedding: Tensor | None = None,
) -> Context:
    """The context of an encoder-decoder model for a head without decoder memory."""
    counted = torch.ones(states.shape[:2], dtype=torch.bool) if counted is None else counted
    row, place = counted.nonzero(as_tuple=True)
    return Context(states[row, place], place, Layout(row, len(states)), vocabulary, None, source, embedding)
