"""Where models compute when nobody says it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def best_device() -> torch.device:
    """The accelerator, where one can be used; else the CPU.

    A build of torch with CUDA names its accelerator on machines without a GPU too, so being named is not enough.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator or torch.device("cpu")


def is_offloaded(module: nn.Module) -> bool:
    """Whether accelerate keeps a module's weight on the CPU or on disk and brings it for each call."""
    return _fetching_hook(module) is not None


def device_of(module: nn.Module) -> torch.device:
    """Where a module with a weight computes: on its weight's device, or where accelerate brings an offloaded one."""
    weight: Any = module.weight
    hook = _fetching_hook(module)
    return torch.device(weight.device if hook is None else hook.execution_device)


def _fetching_hook(module: nn.Module) -> Any:
    weight: Any = module.weight
    hook: Any = getattr(module, "_hf_hook", None)
    if hook is None or not weight.is_meta:  # an offloaded weight leaves its shape behind, without content
        return None
    return next((one for one in getattr(hook, "hooks", [hook]) if getattr(one, "offload", False)), None)
