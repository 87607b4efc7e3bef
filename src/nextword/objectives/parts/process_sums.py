"""Sums over all processes of a distributed training."""

from __future__ import annotations

import torch
from torch import Tensor, distributed


def summed_over_processes(values: Tensor) -> Tensor:
    """The sum of every process's ``values``; the values themselves where there is one process.

    All processes have to ask in the same order, as for gradients.

    >>> summed_over_processes(torch.tensor([1, 2]))
    tensor([1, 2])
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return values
    total = values.clone()
    distributed.all_reduce(total)
    return total


def on_every_process(here: bool, device: torch.device) -> bool:
    """Whether ``here`` is true on all of them; for choices that every process has to make alike.

    >>> on_every_process(True, torch.device("cpu"))
    True
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return here
    return not int(summed_over_processes(torch.tensor(int(not here), device=device)))
