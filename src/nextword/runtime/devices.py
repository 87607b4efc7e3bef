"""The default device, and access to offloaded or sharded weights."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, distributed, nn


def best_device() -> torch.device:
    """The accelerator (GPU) if one is usable, otherwise the CPU.

    A build of torch with CUDA names an accelerator even on machines without a GPU. So the function also tests whether
    the accelerator is available.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator or torch.device("cpu")


def is_offloaded(module: nn.Module) -> bool:
    """Whether accelerate offloads a module's weight to the CPU or disk, and loads it for each call."""
    return _fetching_hook(module) is not None


def weight_of(layer: nn.Module) -> Tensor:
    """A layer's weight. In dynamically quantised layers of torch, ``weight`` is a method."""
    weight: Any = layer.weight
    return cast("Tensor", weight() if callable(weight) else weight)


def precision_of(layer: nn.Module) -> torch.dtype:
    """Dtype of a layer's input: the dtype of the layer's weight, or float32 if the weight is quantised to integers."""
    weight = weight_of(layer)
    return weight.dtype if weight.is_floating_point() else torch.float32


def device_of(module: nn.Module) -> torch.device:
    """Device on which a module computes: the one with its weight, or the one to which an offloaded weight is loaded."""
    weight = weight_of(module)
    hook = _fetching_hook(module)
    return torch.device(weight.device if hook is None else hook.execution_device)


def _fetching_hook(module: nn.Module) -> Any:
    hook: Any = getattr(module, "_hf_hook", None)
    if hook is None or not weight_of(module).is_meta:  # an offloaded weight is on the meta device
        return None
    return next((one for one in getattr(hook, "hooks", [hook]) if getattr(one, "offload", False)), None)


def is_sharded(layer: nn.Module) -> bool:
    """Whether FSDP2 shards a layer's weight. FSDP2 gathers such a weight only for the layer's own forward pass."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    from torch.distributed.fsdp import FSDPModule

    return isinstance(layer, FSDPModule)


def class_of(layer: nn.Module) -> type:
    """The class of a layer. For a sharded layer, whose class FSDP2 replaces, it is the original class."""
    return type(layer).__bases__[-1] if is_sharded(layer) else type(layer)


def gather_weight(layer: nn.Module) -> None:
    """Gathers the whole weight of a sharded layer. The weight stays gathered until its gradient is computed."""
    sharded: Any = layer
    if is_sharded(layer):
        sharded.unshard()


VOCABULARY = "vocabulary"
"""Name of the mesh dimension along which an output embedding is sharded by rows."""


def vocabulary_mesh(layer: nn.Module) -> Any:
    """The ``DeviceMesh`` over which the rows of a layer's weight are sharded; None if the rows are not sharded."""
    mesh: Any = getattr(weight_of(layer), "device_mesh", None)
    return mesh if mesh is not None and mesh.mesh_dim_names == (VOCABULARY,) else None


def held_here(weight: Tensor) -> Tensor:
    """The rows of ``weight`` in this process: all rows, unless ``weight`` is sharded. Gradients reach ``weight``."""
    if not hasattr(weight, "placements"):
        return weight
    shared: Any = weight
    rows: Any = shared.to_local()
    if rows.requires_grad:  # a DTensor cannot have a sparse gradient
        rows.register_hook(lambda gradient: gradient.to_dense() if gradient.is_sparse else gradient)
    return cast("Tensor", rows)
