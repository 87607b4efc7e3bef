"""What each position may see of the text before it and of the source: places, and the distinct words there.

Position t has read its own token ``x_t`` and predicts ``x_{t+1}``. Padding, unknown tokens and ids beyond the output
layer are never seen: an input embedding may have rows that the output layer lacks.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from nextword.functional.distinct_words import Words
from nextword.heads.context import Context, Memory, Source


def past_places(context: Context, include_current: bool, last: int | None = None) -> Bool[Tensor, "N S"]:
    """Which places of its text each of N positions sees, of S remembered ones.

    Args:
        context: Of a head that remembers.
        include_current: Whether a position sees its own place; it always sees those before.
        last: How many of these tokens it sees, the nearest ones; padding between them does not count. None: all.

    Raises:
        ValueError: The head does not remember, or ``last`` is less than 1.
    """
    memory = _memory(context)
    place = torch.arange(memory.ids.shape[1], device=memory.ids.device)
    past = place < _end(context, include_current)[:, None]
    seen = _known(memory, context)[context.row] & past
    return seen if last is None else seen & _nearest(memory.valid[context.row] & past, last)


def past_words(context: Context, include_current: bool, last: int | None = None) -> tuple[Words, Bool[Tensor, "N U"]]:
    """The distinct words of each text, and which of its U words each of N positions sees.

    A position sees the words at the places of ``past_places``, which takes the same arguments.
    """
    memory = _memory(context)
    words = Words.of(memory.ids, _known(memory, context))
    if last is None:
        return words, words.seen(context.row, _end(context, include_current))
    return words, words.at(past_places(context, include_current, last), context.row)


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


def _nearest(past: Bool[Tensor, "N S"], last: int) -> Bool[Tensor, "N S"]:
    """Places from the ``last``-th token before the end of each row's past on."""
    if last < 1:
        raise ValueError(f"last: must be at least 1 ({last} given); None stands for all places")
    number = past.cumsum(1)
    return number > number[:, -1:] - last


def _end(context: Context, include_current: bool) -> Tensor:
    return context.position + include_current
