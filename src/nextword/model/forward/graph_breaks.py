"""Where a compiled pass leaves its graph, and why: three places, one for each reason below.

What is left out would lose by being traced. A graph has one size, so the loss would be made of every place, padding
and all, and of whole (N, V) tensors that are kept for the backward pass. Outside, nothing about it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import torch

LOSS = "nextword: the loss is made chunk by chunk, each with its gradient, and of the places that count alone"
SEQUENCE_UPDATE = "nextword: +seq draws whether the model continues the batch itself, which is generate"
PACKED = "nextword: positions without a mask tell the texts of a row apart, whose number and length always change"

Function = TypeVar("Function", bound=Callable[..., object])


def outside_graph(reason: str) -> Callable[[Function], Function]:
    """Leaves a function as it is, and a graph wherever a compiled one calls it.

    Args:
        reason: One of those above; the compiler's report of graph breaks shows it.
    """
    return cast(Callable[[Function], Function], torch.compiler.disable(reason=reason))
