"""One pass over held-out tokens, made by whatever asks a model for their log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nextword.distribution import NextToken
from nextword.heads.context import Context
from nextword.heads.parts.head_calibration import Calibration

FEWEST_BLOCKS = 20
"""With fewer, an interval over blocks says little."""

LONGEST_BLOCK = 256
"""Tokens of a block at most: some 1,000 bytes, as in ``nextword score``."""


class OnePass:
    """What was asked for, in order.

    Args:
        calibration: Is told all that it needs of each token.
    """

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self._sequences: list[Int[np.ndarray, "N"]] = []
        self._count = 0

    def read(self, context: Context, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """Log-probabilities under what the head adds to; the rest is kept."""
        row = context.row.repeat_interleave(ids.shape[1]).cpu().numpy()
        self._sequences.append(row + self._count)
        self._count += context.layout.batch_size
        return self.calibration.read(context, ids)

    def blocks(self) -> tuple[Int[np.ndarray, "N"], int]:
        """The block of each token, and how many tokens it has at most: neighbours in one sequence."""
        sequence = np.concatenate([np.zeros(0, dtype=np.int64), *self._sequences])
        size = min(LONGEST_BLOCK, max(1, len(sequence) // FEWEST_BLOCKS))
        begins = np.concatenate([[True], sequence[1:] != sequence[:-1]])[: len(sequence)]
        inside = np.arange(len(sequence)) - np.maximum.accumulate(np.where(begins, np.arange(len(sequence)), 0))
        return np.cumsum(begins | (inside % size == 0)) - 1, size


@contextmanager
def one_pass(model: Any, calibration: Calibration) -> Iterator[OnePass]:
    """Within this block the model's distributions answer ``log_prob``, and tell the calibration what they were asked.

    So whatever measures held-out tokens can be the pass: windows of a text, targets after prompts or sources. The model
    has its own head again afterwards.
    """
    head, reading = model.next_word_head, OnePass(calibration)
    model.next_word_head = _ReadAlong(head, reading)
    try:
        yield reading
    finally:
        model.next_word_head = head


class _ReadAlong(nn.Module):
    """A head in all but its distribution."""

    def __init__(self, head: nn.Module, reading: OnePass) -> None:
        super().__init__()
        self.head = head
        self._reading = reading

    def __getattr__(self, name: str) -> Any:
        own = super().__getattr__
        return own(name) if name == "head" else getattr(own("head"), name)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        return _Asked(context, self._reading)


class _Asked(NextToken):
    """Answers ``log_prob``, and is then read."""

    def __init__(self, context: Context, reading: OnePass) -> None:
        self._context, self._reading = context, reading
        self.device, self.vocab_size = context.states.device, context.vocabulary.size

    def __len__(self) -> int:
        return len(self._context.states)

    def log_prob(self, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        self._expect_rows(ids)
        with torch.no_grad():
            return self._reading.read(self._context, ids)

    def _nothing_else(self, *_: Any, **__: Any) -> Any:
        raise TypeError("in a pass that calibrates, a distribution is asked for log_prob alone")

    map = shared = _log_probs = _log_prob = _log_sources = _nothing_else
