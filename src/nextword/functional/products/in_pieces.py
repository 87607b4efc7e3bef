"""``states @ weight.T`` of few states and a large matrix, piece by piece.

A step of generation multiplies a state of each text with the output embedding, and that is to take as long as reading
it. On a CPU torch's own product takes two to six times as long, since BLAS divides such a product among threads by its
few states. A batch of products with pieces of the matrix is the same to the last digits, and divided by pieces.
"""

from __future__ import annotations

import torch
import torch.autograd.forward_ad as forward_ad
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

_PIECES = 64
"""At most; that many cores have one each."""
_LEAST_ROWS = 128
"""Of a piece."""
_LEAST_BYTES = 2**22
"""Of a matrix; below, it may lie in the processor's cache, where torch's own product is as fast."""
_FEW = 4
"""Up to so many states, they are the columns of each product: BLAS reads the matrix once then."""
_MOST = 64
"""For more states torch's own product is nearly as fast."""


def only_torch_operations(device: torch.device) -> bool:
    """Whether autocast, a compiler or ``torch.func`` is at work: they know torch's operations, not ours."""
    transformed = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    return transformed or torch.compiler.is_compiling() or torch.is_autocast_enabled(device.type)


def product(
    states: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], bias: Float[Tensor, "V"] | None = None
) -> Float[Tensor, "N V"]:
    """``states @ weight.T + bias`` in the way that is fastest.

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
