"""A stream of tokens cut into training rows of one length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import Dataset


def block_rows(stream: Sequence[int], size: int, text: str, setting: str) -> Dataset:
    """Contiguous blocks as ``input_ids`` and ``labels``; a remainder shorter than a block is left out.

    >>> block_rows([7, 1, 2, 3, 4], 2, "the training text", "task.block")["input_ids"][:]
    [[7, 1], [2, 3]]

    Args:
        stream: Tokens, a start token before each text.
        size: Tokens of a block.
        text: What the stream is, for the message.
        setting: Name of the setting that holds ``size``.

    Raises:
        ValueError: The stream is shorter than one block.
    """
    from datasets import Dataset

    blocks = [list(stream[begin : begin + size]) for begin in range(0, len(stream) - size + 1, size)]
    if not blocks:
        raise ValueError(
            f"{setting}: {text} has {len(stream)} tokens, shorter than one block of {size}; give more text or a "
            f"smaller block"
        )
    return Dataset.from_dict({"input_ids": blocks, "labels": blocks})
