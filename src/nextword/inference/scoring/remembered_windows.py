"""A text in windows, asked of a head that looks back further than each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from nextword.inference.scoring.minibatches import Progress, batches
from nextword.inference.scoring.windows import Window
from nextword.model.head_cache.long_memory import LongMemory


@dataclass(frozen=True)
class Remembered:
    """Some windows of a text.

    Attributes:
        distribution: Before each of N tokens, those that these windows score.
        targets: The tokens.
        counts: How many of them each window scores.
        begin: Index in the text of the first place that is remembered; the places of the distribution count from it.
    """

    distribution: Any
    targets: Int[Tensor, "N"]
    counts: list[int]
    begin: int


def looks_beyond_windows(model: Any) -> bool:
    """Whether a model's head wants the windows of a text in order, and remembers earlier ones."""
    return model.next_word_head.looks_back is not None


def remembered_windows(
    model: Any,
    ids: Int[Tensor, "M"],
    windows: Sequence[Window],
    batch_size: int,
    *,
    memory: LongMemory | None = None,
    first: int = 1,
    progress: Progress | None = None,
) -> Iterator[Remembered]:
    """Windows in order, some at a time; what the head keeps of their places is remembered.

    Args:
        model: An attached decoder-only model, as in evaluation.
        ids: The text, or several, a start token before each: a text sees nothing of the one before.
        windows: All of one size; together they read every place from the first on.
        batch_size: Windows at a time; no number depends on it.
        memory: What is remembered is added to it; None: to one that is forgotten after the last window.
        first: Index in the text of the first token that is scored.
        progress: Told the share that is done.
    """
    memory, read = memory or LongMemory(start=int(ids[0])), 0
    for part in batches(windows, batch_size, progress):
        places = torch.stack([torch.arange(one.begin, one.begin + one.size) for one in part])
        ends = torch.tensor([read, *[one.begin + one.size for one in part[:-1]]])
        read = part[-1].begin + part[-1].size
        new = places >= ends[:, None]
        scored = new & (places + 1 >= first)
        rows, new, positions = (tensor.to(model.device) for tensor in (ids[places], new, scored))
        distribution = model.distribution(rows, memory=memory, new_places=new, positions=positions)
        targets, counts = ids[places + 1][scored].to(model.device), scored.sum(1).tolist()
        yield Remembered(distribution, targets, counts, memory.begin)
