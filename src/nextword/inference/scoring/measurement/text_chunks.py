"""Texts in chunks: what a worker is given at a time, and what is kept or lost when a score is killed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nextword.inference.scoring.example_encoding import Example

CHUNK_BYTES = 1 << 18
"""A chunk ends with the text that fills it. The same for any number of processes: windows of one chunk share batches,
and how long a batch is padded moves the last bits of its numbers."""


@dataclass(frozen=True)
class Chunk:
    """Texts that follow one another.

    Attributes:
        number: Of the chunk, from 0.
        first: Number of the first text, from 0.
        examples: The texts.
        bytes: UTF-8 bytes of them.
    """

    number: int
    first: int
    examples: tuple[Example, ...]
    bytes: int


def chunks(examples: Iterable[Example]) -> Iterator[Chunk]:
    """The texts in chunks, in order.

    >>> [(one.first, len(one.examples)) for one in chunks([Example("a" * CHUNK_BYTES), Example("b"), Example("c")])]
    [(0, 1), (1, 2)]
    """
    number = first = size = 0
    waiting: list[Example] = []
    for example in examples:
        waiting.append(example)
        size += len(example.text.encode("utf-8", "surrogatepass"))
        if size >= CHUNK_BYTES:
            yield Chunk(number, first, tuple(waiting), size)
            number, first, size, waiting = number + 1, first + len(waiting), 0, []
    if waiting:
        yield Chunk(number, first, tuple(waiting), size)
