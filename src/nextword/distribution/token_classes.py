"""Tokens divided into classes, each token in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class TokenClasses:
    """C classes of tokens, none of them empty.

    Args:
        order: All token ids, class after class.
        sizes: Tokens in each class.
        token_class: Class of each token, 0 to C - 1.
        place: Place of each token within its class.
    """

    order: Int[Tensor, "V"]
    sizes: tuple[int, ...]
    token_class: Int[Tensor, "V"]
    place: Int[Tensor, "V"]

    @classmethod
    def of(cls, token_class: Int[Tensor, "V"]) -> TokenClasses:
        """From the class of each token; within a class tokens stand in the order of their ids.

        >>> import torch
        >>> TokenClasses.of(torch.tensor([1, 0, 1])).members
        (tensor([1]), tensor([0, 2]))
        """
        return cls.ordered(token_class.argsort(stable=True), torch.bincount(token_class).tolist())

    @classmethod
    def ordered(cls, order: Int[Tensor, "V"], sizes: Sequence[int]) -> TokenClasses:
        """From all token ids, class after class, and the number of tokens in each class."""
        device = order.device
        classes = torch.arange(len(sizes), device=device).repeat_interleave(torch.tensor(sizes, device=device))
        places = torch.cat([torch.arange(size, device=device) for size in sizes])
        token_class = torch.empty_like(order).scatter_(0, order, classes)
        return cls(order, tuple(sizes), token_class, torch.empty_like(order).scatter_(0, order, places))

    @property
    def count(self) -> int:
        """C."""
        return len(self.sizes)

    @cached_property
    def members(self) -> tuple[Tensor, ...]:
        """Token ids of each class."""
        return torch.split(self.order, list(self.sizes))

    @cached_property
    def column(self) -> Int[Tensor, "V"]:
        """Where each token stands in ``order``."""
        begins = self.order.new_tensor([0, *accumulate(self.sizes)])
        return begins[self.token_class] + self.place
