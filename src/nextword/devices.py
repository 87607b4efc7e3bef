"""Where models compute when nobody says it."""

from __future__ import annotations

import torch


def best_device() -> torch.device:
    """The accelerator, where one can be used; else the CPU.

    A build of torch with CUDA names its accelerator on machines without a GPU too, so being named is not enough.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator or torch.device("cpu")
