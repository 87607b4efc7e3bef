"""What each position may see of the text before it and of the source: places, and the distinct words there.

Position t has read its own token ``x_t`` and predicts ``x_{t+1}``. Padding, unknown tokens and ids beyond the output
layer are never seen: an input embedding may have rows that the output layer lacks.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from nextword.context import Context, Memory, Source
from nextword.functional.distinct_words import Words


def past_places(context: Context, include_current: bool) -> Bool[Tensor, "N S"]:
    """Which places of its text each position sees: those before it, and with ``include_current`` its own."""
    memory = _memory(context)
    place = torch.arange(memory.ids.shape[1], device=memory.ids.device)
    return _known(memory, context)[context.row] & (place < _end(context, include_current)[:, None])


def past_words(context: Context, include_current: bool) -> tuple[Words, Bool[Tensor, "N U"]]:
    """The distinct words of each text, and which of them stand at a place that the position sees (``past_places``)."""
    memory = _memory(context)
    words = Words.of(memory.ids, _known(memory, context))
    return words, words.seen(context.row, _end(context, include_current))


def source_places(context: Context) -> Bool[Tensor, "N E"]:
    """Which places of the source each position sees: all."""
    return _known(_source(context), context)[context.row]


def source_words(context: Context) -> tuple[Words, Bool[Tensor, "N U"]]:
    """The distinct words of each source, and which of them each position sees: all."""
    source = _source(context)
    words = Words.of(source.ids, _known(source, context))
    return words, words.occurring(context.row)


def _memory(context: Context) -> Memory:
    if context.memory is None:
        raise ValueError(
            "memory: must be kept by a head that looks at earlier places (none kept); set remembers = True in its class"
        )
    return context.memory


def _source(context: Context) -> Source:
    if context.source is None:
        raise ValueError(
            "source: must be read by a head that looks at it (none read); set reads_source = True in its class, and "
            "attach it to an encoder-decoder model or with a conditioner"
        )
    return context.source


def _known(text: Memory | Source, context: Context) -> Bool[Tensor, "B S"]:
    return text.valid & (text.ids < context.vocabulary.size)


def _end(context: Context, include_current: bool) -> Tensor:
    return context.position + include_current
