"""How many rows of dense scores are computed at once.

The scores of one position over a vocabulary of 50,000 words take 200 KB. What is asked of them in training is one
number a position or one in all, so they are computed for a few rows at a time: a chunk. How many rows a chunk has
follows from a memory budget.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from nextword.functional.score_columns import ALL_COLUMNS, Columns

_CPU_BUDGET = 128 * 2**20
"""Bytes of dense scores alive at once on a CPU. A product with few states costs more for each (100 states of GPT-2
small a third more than 400, measured on two cores), one with more than this saves little."""

_SUM_BUDGET = 64 * 2**20
"""The same where nothing but the scores is alive, and not much of them is needed for the product to be fast."""

_GPU_SHARE = 0.1
"""Share of the free memory of an accelerator that dense scores may take."""

_budget: ContextVar[int | None] = ContextVar("score_memory", default=None)
"""What ``score_memory`` was asked for. No result depends on it, so it need not be passed along."""


@contextmanager
def score_memory(mebibytes: int | float) -> Iterator[None]:
    """Within this block, dense scores take about ``mebibytes`` MiB at once instead of the automatic budget.

    That is a tenth of the free memory of a GPU; on a CPU 128 MiB, in training 64 MiB or two thirds of what the output
    embedding's gradient takes, whichever is more. The results do not depend on it, only time and memory do;
    ``float("inf")`` is no limit. Training goes inside the block: ``with score_memory(64): trainer.train()``.

    >>> with score_memory(64):
    ...     row_chunks(rows=100, row_bytes=2**20, device=torch.device("cpu"))
    [slice(0, 50, None), slice(50, 100, None)]
    """
    if isinstance(mebibytes, bool) or not isinstance(mebibytes, int | float) or not mebibytes > 0:
        raise ValueError(f"score_memory: must be a positive number of MiB ({mebibytes!r} given)")
    token = _budget.set(int(min(mebibytes * 2**20, sys.maxsize)))
    try:
        yield
    finally:
        _budget.reset(token)


def row_chunks(rows: int, row_bytes: int, device: torch.device, columns: Columns = ALL_COLUMNS) -> list[slice]:
    """Slices that cover ``rows`` rows of ``row_bytes`` bytes each, every slice within the memory budget.

    Processes that share the columns of scores make the same slices.
    """
    if torch.compiler.is_compiling():
        # a graph can neither read the budget nor ask how much memory is free; a compiled step has few rows
        return [slice(0, rows)] if rows else []
    limit = _bytes_at_once(device) // max(1, row_bytes)
    # what memory is free differs between accelerators
    return _equal_slices(rows, limit if device.type == "cpu" else columns.rows_at_once(limit))


def sum_chunks(
    rows: int, row_bytes: int, weight_bytes: int, device: torch.device, columns: Columns = ALL_COLUMNS
) -> list[slice]:
    """Slices for a sum over rows whose gradient adds up in a weight of ``weight_bytes`` bytes.

    Every slice reads the weight and writes its gradient, so that few rows at a time make it slow, the more so the
    larger the weight is. Rows that all together take no more than the weight go at once.
    """
    if torch.compiler.is_compiling() or _budget.get() is not None or device.type != "cpu":
        return row_chunks(rows, row_bytes, device, columns)
    budget = weight_bytes if rows * row_bytes <= weight_bytes else max(_SUM_BUDGET, 2 * weight_bytes // 3)
    return _equal_slices(rows, budget // max(1, row_bytes))


def _bytes_at_once(device: torch.device) -> int:
    budget = _budget.get()
    if budget is not None:
        return budget
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free * _GPU_SHARE)
    return _CPU_BUDGET


def _equal_slices(rows: int, limit: int) -> list[slice]:
    # of equal size: a last chunk of few rows would cost as much as a whole one
    size = -(-rows // max(1, -(-rows // max(1, limit))))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, max(1, size))]
