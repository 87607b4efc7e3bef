"""Prompts: what a model reads before it writes, with what people wrote there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int

from nextword.inference.generation.writing_settings import ContinuationConfig
from nextword.inference.scoring.target_likelihood import TokenPair


@dataclass(frozen=True)
class Prompt(TokenPair):
    """A context that is written on from; its target is what people wrote there.

    Attributes:
        number: Its place among the prompts, from 0.
        start: Tokens at the beginning of the context that belong to no text, such as a start token; samples files leave
            them out.
        source: The text that what is written is to follow, shown as the prompt; None: the context itself is the prompt.
        references: All that people wrote there, as whole texts, where the target is cut off or one of several; empty:
            the target is all.
        columns: Further columns of its line in a samples file, such as a table; one of the same name is replaced by it.
    """

    number: int
    start: int = 0
    source: str | None = None
    references: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)


def block_prompts(ids: Sequence[int], text_bytes: Int[np.ndarray, "N"], config: ContinuationConfig) -> list[Prompt]:
    """The first blocks of a text, none overlapping another: the beginning of a block is a prompt, its rest the target.

    F2-Softmax, section 4.1.5, has 50 tokens of each block as prompt and 100 as target.

    Args:
        ids: Tokens of the text.
        text_bytes: Bytes that each of them covers.
        config: How many, and how long.

    Raises:
        ValueError: The text is shorter than one block.
    """
    prompts = []
    for number, begin in enumerate(range(0, len(ids) - config.block + 1, config.block)):
        if number == config.prompts:
            break
        cut, end = begin + config.prefix, begin + config.block
        prompts.append(Prompt(list(ids[begin:cut]), list(ids[cut:end]), int(text_bytes[cut:end].sum()), number))
    if not prompts:
        raise ValueError(
            f"task.generation: the test text has {len(ids)} tokens, no block of prefix + continuation = {config.block}"
        )
    return prompts
