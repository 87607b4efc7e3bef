"""Training mode and evaluation mode, module by module: a model's owner may have set parts of it differently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from nextword.settings.old_modules import old_names


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """After this block every module of the model is in training or not, as it was before."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def as_in_evaluation(model: nn.Module) -> Iterator[None]:
    """Within this block no part of the model is in training; afterwards each is as it was."""
    with modes_kept(model):
        model.eval()
        yield


@contextmanager
def inference_mode_of(model: nn.Module) -> Iterator[None]:
    """Within this block the model is as in evaluation, and no gradient is recorded."""
    with as_in_evaluation(model), torch.no_grad():
        yield


__getattr__ = old_names(__name__)
