"""Backward passes without a derivative: create_graph=True is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.autograd.function import once_differentiable


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass that refuses ``create_graph=True``.

    torch's ``once_differentiable`` alone lets it pass where the incoming gradient is a constant, as that of a loss is,
    and what depends on saved tensors would be missing from second derivatives without a word.
    """
    once = once_differentiable(backward)

    @wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "second derivatives (create_graph=True): a head's loss and log_prob have first ones only; use "
                "log_probs(), which has both for heads without partitions and pointers"
            )
        return once(ctx, *gradients)

    return checked
