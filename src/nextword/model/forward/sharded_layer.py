"""An output layer that FSDP2 spreads over the processes: its weight is gathered before a head reads it."""

from __future__ import annotations

from typing import Any

from torch import distributed, nn


def is_sharded(layer: nn.Module) -> bool:
    """Whether FSDP2 keeps a share of a layer's weight in each process, and gathers it for its own forward alone."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    from torch.distributed.fsdp import FSDPModule

    return isinstance(layer, FSDPModule)


def class_of(layer: nn.Module) -> type:
    """What a layer is, also after FSDP2 has put a class of its own before that."""
    return type(layer).__bases__[-1] if is_sharded(layer) else type(layer)


def gather_weight(layer: nn.Module) -> None:
    """Makes the whole weight of a sharded layer readable, until its gradient is made."""
    sharded: Any = layer
    if is_sharded(layer):
        sharded.unshard()
