"""Where models compute when nobody says it, and where their weights are when they are not simply there."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, distributed, nn


def best_device() -> torch.device:
    """The accelerator, where one can be used; else the CPU.

    A build of torch with CUDA names its accelerator on machines without a GPU too, so being named is not enough.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator or torch.device("cpu")


def is_offloaded(module: nn.Module) -> bool:
    """Whether accelerate keeps a module's weight on the CPU or on disk and brings it for each call."""
    return _fetching_hook(module) is not None


def weight_of(layer: nn.Module) -> Tensor:
    """A layer's weight; the dynamically quantised layers of torch give theirs when they are asked."""
    weight: Any = layer.weight
    return cast("Tensor", weight() if callable(weight) else weight)


def precision_of(layer: nn.Module) -> torch.dtype:
    """Precision of what a layer is to read: that of its weight, float32 where the weight is of integers."""
    weight = weight_of(layer)
    return weight.dtype if weight.is_floating_point() else torch.float32


def device_of(module: nn.Module) -> torch.device:
    """Where a module with a weight computes: on its weight's device, or where accelerate brings an offloaded one."""
    weight = weight_of(module)
    hook = _fetching_hook(module)
    return torch.device(weight.device if hook is None else hook.execution_device)


def _fetching_hook(module: nn.Module) -> Any:
    hook: Any = getattr(module, "_hf_hook", None)
    if hook is None or not weight_of(module).is_meta:  # an offloaded weight leaves its shape behind, without content
        return None
    return next((one for one in getattr(hook, "hooks", [hook]) if getattr(one, "offload", False)), None)


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


VOCABULARY = "vocabulary"
"""Name of the dimension of a device mesh whose processes hold a range of an output embedding's rows each."""


def vocabulary_mesh(layer: nn.Module) -> Any:
    """The processes (a ``DeviceMesh``) that share the rows of a layer's weight; None where each has the whole of it."""
    mesh: Any = getattr(weight_of(layer), "device_mesh", None)
    return mesh if mesh is not None and mesh.mesh_dim_names == (VOCABULARY,) else None


def held_here(weight: Tensor) -> Tensor:
    """The rows of a weight that this process holds: all, unless processes share them. Gradients go to the weight."""
    if not hasattr(weight, "placements"):
        return weight
    shared: Any = weight
    rows: Any = shared.to_local()
    if rows.requires_grad:  # a DTensor is not sparse, and nor can its gradient be
        rows.register_hook(lambda gradient: gradient.to_dense() if gradient.is_sparse else gradient)
    return cast("Tensor", rows)
