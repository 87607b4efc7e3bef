"""Dot products of one query with rows of a matrix where they lie: torch's sampled product, which copies none of them.

In a step of generation a text has one query, and thousands of rows to compare it with. Picking rows to multiply them
once takes several times as long as reading them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.products.in_pieces import only_torch_operations

_PIECE = 256
"""Rows that one thread reads before it takes the next piece."""
_LEAST_BYTES = 2**20
"""Below so many bytes, picking rows is as fast."""


def reads_in_place(table: Float[Tensor, "R D"], queries: Float[Tensor, "B Q D"], rows: int) -> bool:
    """Whether ``products_in_place`` can be taken for so many rows, and pays.

    Several queries share the rows that are picked for them, so it pays for one. On a CPU alone: torch has no such
    product in half precision, and on a GPU picking costs little.
    """
    return (
        queries.shape[1] == 1
        and table.device.type == "cpu"
        and table.is_contiguous()  # any other is copied whole
        and table.dtype in (torch.float32, torch.float64)
        and table.dtype == queries.dtype
        and rows * table.shape[1] * table.element_size() >= _LEAST_BYTES
        and not (torch.is_grad_enabled() and (table.requires_grad or queries.requires_grad))
        and not only_torch_operations(table.device)
    )


def products_in_place(
    table: Float[Tensor, "R D"],
    queries: Float[Tensor, "B 1 D"],
    ids: Int[Tensor, "B K"],
    counts: Sequence[int] | None = None,
) -> Float[Tensor, "B 1 K"]:
    """``queries[b] @ table[ids[b]].T`` for every b, without gradients.

    >>> table = torch.arange(6.0).reshape(3, 2)
    >>> products_in_place(table, torch.ones(1, 1, 2), torch.tensor([[2, 0]]))
    tensor([[[9., 1.]]])

    Args:
        table: The matrix.
        queries: A query of each text.
        ids: Rows that it is multiplied with.
        counts: How many of its first ids each text needs; products behind them are 0, and their rows are not read.
            None: all.

    Raises:
        IndexError: The matrix has no such row.
    """
    _without_warning()
    counts = [ids.shape[1]] * len(ids) if counts is None else counts
    within = torch.arange(ids.shape[1], device=ids.device) < torch.tensor(counts, device=ids.device)[:, None]
    read = ids[within]
    low, high = (int(end) for end in read.aminmax()) if len(read) else (0, -1)
    if low < 0 or high >= len(table):  # torch would read other memory
        raise IndexError(f"ids: must be rows of the matrix, 0 to {len(table) - 1} ({low} to {high} given)")
    piece = min(_PIECE, len(table))  # torch takes no more places of a row than it has columns
    starts: list[int] = []  # of pieces in the list of all rows that are read
    asking: list[int] = []  # the text of each
    for text, (end, count) in enumerate(zip(accumulate(counts), counts, strict=True)):
        own = range(end - count, end, piece)
        starts += own
        asking += [text] * len(own)
    ends = torch.tensor([*starts, len(read)], device=ids.device)
    size = (len(starts), len(table))
    pattern = torch.sparse_csr_tensor(ends, read, table.new_zeros(len(read)), size, check_invariants=False)
    found = torch.sparse.sampled_addmm(pattern, queries.detach()[asking, 0], table.detach().T, beta=0.0).values()
    return queries.new_zeros(ids.shape).masked_scatter(within, found)[:, None]


@cache
def _without_warning() -> None:
    """Torch says once in each process that its sparse matrices are young; here that is no news to anybody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1, 1, device="cpu").to_sparse_csr()
