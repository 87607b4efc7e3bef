"""Products of states with an output embedding or with some of its rows, as fast as memory allows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from nextword.functional.weight_gradient import Factors, FusedBackward, GradientCollector, first_order


def dense_products(
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"] | None,
    states: Sequence[Float[Tensor, "_R D"]],
    fused_backward: FusedBackward | None = None,
) -> list[Float[Tensor, "_R V"]]:
    """``states[k] @ weight.T + bias`` for every k, as one product; each result may be changed in place.

    >>> weight = torch.arange(6.0).reshape(3, 2)
    >>> [scores.tolist() for scores in dense_products(weight, None, [torch.ones(1, 2), torch.zeros(1, 2)])]
    [[[1.0, 5.0, 9.0]], [[0.0, 0.0, 0.0]]]
    """
    inputs = (weight, *states) if bias is None else (weight, bias, *states)
    differentiable = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    if differentiable and only_torch_operations(weight.device):
        return [F.linear(part, weight, bias) for part in states]
    joined, sizes = states[0] if len(states) == 1 else torch.cat(list(states)), [len(part) for part in states]
    if differentiable:
        return list(_DenseProducts.apply(weight, bias, sizes, joined, fused_backward))  # type: ignore[no-untyped-call]
    return list(torch.split(product(joined, weight, bias), sizes))


class _DenseProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        bias: Tensor | None,
        sizes: list[int],
        states: Tensor,
        fused_backward: FusedBackward | None,
    ) -> tuple[Tensor, ...]:
        ctx.collector = None if fused_backward is None else fused_backward.collector(weight)
        ctx.save_for_backward(weight, states)
        if fused_backward is None or not _in_blocks(states, weight):
            scores = F.linear(states, weight, bias)
        else:
            scores = _blockwise_product(states, weight, bias, fused_backward.empty_scores(states, len(weight)))
        # `data` gives separate tensors in one block of memory; autograd forbids in-place changes of several views
        return tuple(part.data for part in torch.split(scores, sizes))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, states = ctx.saved_tensors
        needs_weight, needs_bias, _, needs_states, _ = ctx.needs_input_grad
        gradient = _joined(gradients)
        factors, of_weight = Factors(gradient.T, states), None
        if needs_weight and ctx.collector is None:
            of_weight = factors.add_to_(None, weight.shape).to(weight.dtype)
        elif needs_weight:
            ctx.collector.add_factors(factors)
        return (
            of_weight,
            gradient.sum(0) if needs_bias else None,
            None,
            gradient @ weight if needs_states else None,
            None,
        )


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Concatenates the parts, without a copy if they are already adjacent in memory."""
    first, end = parts[0], parts[0].storage_offset()
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        in_rows = part.stride() == first.stride() and part.stride(1) == 1 and part.stride(0) >= part.shape[1]
        if not (same and in_rows and part.storage_offset() == end):
            return torch.cat(list(parts))
        end += len(part) * part.stride(0)
    return first.as_strided((sum(map(len, parts)), first.shape[1]), first.stride())


_COLUMNS = 1024
"""Number of rows of a weight that are multiplied at once."""


def _in_blocks(states: Tensor, weight: Tensor) -> bool:
    """Whether torch's own product is slower than a product by blocks (by a fifth for 342 states, with allocation)."""
    dtype = states.dtype
    return weight.device.type == "cpu" and dtype == weight.dtype and dtype in (torch.float32, torch.float64)


def _blockwise_product(states: Tensor, weight: Tensor, bias: Tensor | None, scores: Tensor) -> Tensor:
    """``states @ weight.T + bias``, written into ``scores``."""
    for start in range(0, len(weight), _COLUMNS):
        rows = slice(start, start + _COLUMNS)
        if bias is None:
            torch.mm(states, weight[rows].T, out=scores[:, rows])
        else:
            torch.addmm(bias[rows], states, weight[rows].T, out=scores[:, rows])
    return scores


# -- Products of groups of states with groups of rows of one weight, as a factorised softmax needs them.


def _blocks(rows: Tensor, weight: Tensor) -> list[tuple[slice, Tensor]]:
    """Slices of the scores' columns, each with the rows of the weight for these columns."""
    size = picked_at_once(weight.shape[1] * weight.element_size(), weight.device)
    return [(slice(start, start + size), rows[start : start + size]) for start in range(0, len(rows), size)]


class _GroupedProduct(torch.autograd.Function):
    """``states[g] @ weight[ids[g]].T`` for every group g.

    This is a custom function, because autograd would make a (V, D) gradient for every group, and keep a copy of every
    picked row. This function picks rows again in the backward pass, and adds each group's gradient only to the group's
    rows.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, collector: GradientCollector | None, count: int, *groups: Tensor
    ) -> tuple[Tensor, ...]:
        states, ids = groups[:count], groups[count:]
        device = weight.device.type
        ctx.dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        ctx.count, ctx.collector = count, collector
        ctx.save_for_backward(weight, *states, *ids)
        products = []
        with torch.autocast(device, enabled=False):
            for group, rows in zip(states, ids, strict=True):
                group = group.to(ctx.dtype)
                scores = group.new_empty(len(group), len(rows))
                for columns, block in _blocks(rows, weight):
                    scores[:, columns] = group @ weight.index_select(0, block).to(ctx.dtype).T
                products.append(scores)
        return tuple(products)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, *groups = ctx.saved_tensors
        states, ids = groups[: ctx.count], groups[ctx.count :]
        needs_weight, _, _, *needs_states = ctx.needs_input_grad
        collector = GradientCollector(weight) if ctx.collector is None else ctx.collector
        of_states: list[Tensor | None] = [None] * ctx.count
        for number, (group, rows, gradient) in enumerate(zip(states, ids, gradients, strict=True)):
            gradient, same = gradient.to(ctx.dtype), group.to(ctx.dtype)
            blocks = _blocks(rows, weight)
            if needs_states[number]:
                of_group = torch.zeros_like(same)
                for columns, block in blocks:
                    of_group += gradient[:, columns] @ weight.index_select(0, block).to(ctx.dtype)
                of_states[number] = of_group.to(group.dtype)
            if needs_weight:
                collector.add_factors(Factors(gradient.T, same, blocks))
        of_weight = collector.result() if ctx.collector is None else None
        return (
            None if of_weight is None else of_weight.to(weight.dtype), None, None, *of_states, *[None] * ctx.count
        )  # fmt: skip


def grouped_product(
    weight: Float[Tensor, "V D"],
    states: Sequence[Float[Tensor, "_R D"]],
    ids: Sequence[Int[Tensor, "_K"]],
    fused_backward: FusedBackward | None = None,
) -> tuple[Float[Tensor, "_R _K"], ...]:
    """``states[g] @ weight[ids[g]].T`` for every group g, differentiable. The groups have no common ids.

    >>> weight = torch.arange(6.0).reshape(3, 2)
    >>> [scores.tolist() for scores in grouped_product(weight, [torch.ones(1, 2)], [torch.tensor([2, 0])])]
    [[[9.0, 1.0]]]
    """
    collector = None if fused_backward is None else fused_backward.collector(weight)
    products: tuple[Tensor, ...] = _GroupedProduct.apply(weight, collector, len(states), *states, *ids)  # type: ignore[no-untyped-call]
    return products


# -- Products of states with few rows of a weight, picked in blocks, for the scores of single tokens.

PICKED_BYTES = {"cpu": 8 * 2**20}
"""Maximum number of bytes of a weight's rows to copy at once, by device. On a CPU, allocating a larger block takes
longer than copying into it."""
PICKED_BYTES_ELSEWHERE = 2**28


def picked_at_once(row_bytes: int, device: torch.device) -> int:
    """Number of rows of ``row_bytes`` bytes to pick at once, at least one."""
    return max(1, PICKED_BYTES.get(device.type, PICKED_BYTES_ELSEWHERE) // max(1, row_bytes))


def picked_product(
    weight: Float[Tensor, "V D"],
    states: Float[Tensor, "B Q D"],
    ids: Int[Tensor, "B K"],
    fused_backward: FusedBackward | None = None,
) -> Float[Tensor, "B Q K"]:
    """``states[b] @ weight[ids[b]].T`` for every b, differentiable. The gradient of ``weight`` is sparse.

    The rows ``weight[ids]`` are copied in blocks. Each copy is dropped after its product and made again in the backward
    pass, to save memory. On a CPU, the gradient of a float16 weight is dense. Under autocast, compilation or
    ``torch.func``, all rows are copied at once, and the gradient is dense.

    >>> weight = torch.arange(6.0).reshape(3, 2)
    >>> picked_product(weight, torch.ones(1, 1, 2), torch.tensor([[2, 0]]))
    tensor([[[9., 1.]]])
    """
    if only_torch_operations(weight.device):
        return states @ torch.nn.functional.embedding(ids, weight).mT
    if torch.is_grad_enabled() and (weight.requires_grad or states.requires_grad):
        collector = None if fused_backward is None else fused_backward.collector(weight)
        scores: Tensor = _PickedProduct.apply(weight, states, ids, collector)  # type: ignore[no-untyped-call]
        return scores
    return _product(weight, states, ids)


def _picked(weight: Tensor, ids: Tensor, dtype: torch.dtype) -> Iterator[tuple[slice, slice, Tensor]]:
    """Blocks of rows and columns of ``ids`` with the rows of the weight that they name (R, K, D).

    Each block reuses the memory of the previous block.
    """
    most, width = picked_at_once(weight.shape[1] * weight.element_size(), weight.device), ids.shape[1]
    rows, columns = max(1, most // max(1, width)), max(1, min(most, width))
    buffer = weight.new_empty(0, weight.shape[1])
    for start in range(0, len(ids), rows):
        for first in range(0, width, columns):
            block, part = slice(start, start + rows), slice(first, first + columns)
            named = ids[block, part]
            if len(buffer) < named.numel():
                buffer = weight.new_empty(named.numel(), weight.shape[1])
            picked = torch.index_select(weight.detach(), 0, named.flatten(), out=buffer[: named.numel()])
            yield block, part, picked.view(*named.shape, weight.shape[1]).to(dtype)


def _product(weight: Tensor, states: Tensor, ids: Tensor) -> Tensor:
    if reads_in_place(weight, states, ids.numel()):
        return products_in_place(weight, states, ids)
    scores = states.new_empty(*states.shape[:2], ids.shape[1])
    for block, part, rows in _picked(weight, ids, states.dtype):
        scores[block, :, part] = states[block] @ rows.mT
    return scores


class _PickedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, states: Tensor, ids: Tensor, collector: GradientCollector | None) -> Tensor:
        ctx.collector = collector
        ctx.save_for_backward(weight, states, ids)
        return _product(weight, states, ids)

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        weight, states, ids = ctx.saved_tensors
        of_states = None
        if ctx.needs_input_grad[1]:
            of_states = torch.zeros_like(states)
            for block, part, rows in _picked(weight, ids, states.dtype):
                of_states[block] += gradient[block, :, part] @ rows
        if not ctx.needs_input_grad[0]:
            return None, of_states, None, None
        if ctx.collector is None:
            return _sum_of_rows(ids.flatten(), (gradient.mT @ states).flatten(0, 1), weight), of_states, None, None
        # row v of the weight's gradient sums gradient[n, v] states[n] over the few positions n that picked it
        count = len(states) * states.shape[1]
        positions = torch.arange(count, device=ids.device).repeat_interleave(ids.shape[1])
        tokens = ids[:, None].expand(-1, states.shape[1], -1).flatten()
        left = _sparse(torch.stack([tokens, positions]), gradient.flatten(), torch.Size([len(weight), count]))
        ctx.collector.add_factors(Factors(left, states.flatten(0, 1)))
        return None, of_states, None, None


def _sum_of_rows(ids: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a weight from gradients of its rows, some rows several times; sparse where torch can add it."""
    if weight.dtype is torch.float16 and weight.device.type == "cpu":  # torch cannot add these as sparse tensors
        total = torch.zeros(weight.shape).index_add_(0, ids, rows.float())
        return total.to(weight.dtype)
    return _sparse(ids[None], rows, weight.shape)


def _sparse(indices: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


# -- ``states @ weight.T`` of few states and a large matrix, piece by piece.
#
# A step of generation multiplies one state of each text with the output embedding. This product should take no longer
# than reading the embedding. On a CPU, torch's own product takes two to six times as long, because BLAS divides it
# among threads by the states, which are few. We multiply pieces of the matrix as a batch of products, which BLAS
# divides by pieces. The results are equal up to the last digits.

_PIECES = 64
"""Maximum number of pieces; up to this many cores get one piece each."""
_LEAST_ROWS = 128
"""Minimum number of rows of a piece."""
_LEAST_BYTES = 2**22
"""Minimum size of the matrix. A smaller matrix may be in the processor's cache, where torch's own product is as
fast."""
_FEW = 4
"""Maximum number of states that become the columns of each product, so that BLAS reads the matrix once."""
_MOST = 64
"""Maximum number of states. For more states, torch's own product is nearly as fast."""


def only_torch_operations(device: torch.device) -> bool:
    """Whether autocast, a compiler or ``torch.func`` is active, which support only torch's own operations."""
    transformed = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    return transformed or torch.compiler.is_compiling() or torch.is_autocast_enabled(device.type)


def product(
    states: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], bias: Float[Tensor, "V"] | None = None
) -> Float[Tensor, "N V"]:
    """``states @ weight.T + bias``; on a CPU, for few states, in pieces of the weight, which is faster.

    >>> product(torch.ones(1, 2), torch.arange(6.0).reshape(3, 2))
    tensor([[1., 5., 9.]])
    """
    if not _pays(states, weight):
        return F.linear(states, weight, bias)
    count = min(_PIECES, max(1, len(weight) // _LEAST_ROWS))
    size = len(weight) // count
    whole = size * count
    pieces, each = weight[:whole].view(count, size, weight.shape[1]), states.expand(count, *states.shape)
    scores = states.new_empty(len(states), len(weight))
    by_piece = torch.bmm(pieces, each.mT).mT if len(states) <= _FEW else torch.bmm(each, pieces.mT)
    scores[:, :whole].view(len(states), count, size).copy_(by_piece.transpose(0, 1))
    scores[:, whole:] = states @ weight[whole:].T
    return scores if bias is None else scores.add_(bias)


def _pays(states: Tensor, weight: Tensor) -> bool:
    return (
        0 < len(states) <= _MOST
        and weight.device.type == "cpu"
        and weight.dtype in (torch.float32, torch.float64)
        and weight.numel() * weight.element_size() >= _LEAST_BYTES
        and not only_torch_operations(weight.device)
    )


# -- Dot products of one query with rows of a matrix, by torch's sampled product, which does not copy the rows.
#
# In a step of generation, each text has one query, which is compared with thousands of rows. Copying these rows for a
# single product takes several times as long as reading them.

_PIECE = 256
"""Number of rows that a thread reads before it takes the next piece."""
_LEAST_BYTES_IN_PLACE = 2**20
"""Minimum number of bytes of the rows; for fewer bytes, copying the rows is as fast."""


def reads_in_place(table: Float[Tensor, "R D"], queries: Float[Tensor, "B Q D"], rows: int) -> bool:
    """Whether ``products_in_place`` is possible and faster for ``rows`` rows."""
    return (
        queries.shape[1] == 1  # several queries would share the copied rows
        and table.device.type == "cpu"  # on a GPU, copying rows costs little
        and table.is_contiguous()  # torch would copy any other table as a whole
        and table.dtype in (torch.float32, torch.float64)  # torch has no such product in half precision
        and table.dtype == queries.dtype
        and rows * table.shape[1] * table.element_size() >= _LEAST_BYTES_IN_PLACE
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
        table: The matrix. A missing row raises IndexError.
        queries: One query for each b.
        ids: Rows of the matrix to multiply with the query.
        counts: For each b, how many of ``ids[b]`` to multiply, from the first. Products of later ids are 0, and their
            rows are not read. None: all ids.
    """
    _without_warning()
    counts = [ids.shape[1]] * len(ids) if counts is None else counts
    within = torch.arange(ids.shape[1], device=ids.device) < torch.tensor(counts, device=ids.device)[:, None]
    read = ids[within]
    low, high = (int(end) for end in read.aminmax()) if len(read) else (0, -1)
    if low < 0 or high >= len(table):  # torch would read other memory
        raise IndexError(f"ids: must be rows of the matrix, 0 to {len(table) - 1} ({low} to {high} given)")
    piece = min(_PIECE, len(table))  # torch takes no more positions of a row than it has columns
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
    """Hides torch's warning, once per process, that its sparse matrices are in beta state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1, 1, device="cpu").to_sparse_csr()
