"""Context managers that restore the training or evaluation mode of each module; modules may differ in mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from nextword.settings.old_modules import old_names


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """After the ``with`` block, restores the mode (training or evaluation) of every module of ``model``."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def as_in_evaluation(model: nn.Module) -> Iterator[None]:
    """Sets evaluation mode in the ``with`` block, and restores each module's mode afterwards."""
    with modes_kept(model):
        model.eval()
        yield


@contextmanager
def inference_mode_of(model: nn.Module) -> Iterator[None]:
    """Like ``as_in_evaluation``, and disables gradients in the ``with`` block."""
    with as_in_evaluation(model), torch.no_grad():
        yield


__getattr__ = old_names(__name__)
