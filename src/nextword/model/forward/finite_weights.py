"""Weights that are no numbers, which is what is left of a model that diverged."""

from __future__ import annotations

import torch
from torch import nn

_SHOWN = 3


def weights_at_fault(model: nn.Module) -> str | None:
    """What to say where a model answers nan: its weights that are not finite; None where all are.

    >>> layer = nn.Linear(2, 1)
    >>> weights_at_fault(layer)
    >>> _ = layer.bias.data.fill_(float("nan"))
    >>> weights_at_fault(layer)
    'the weights bias are no finite numbers; take a checkpoint from before the model diverged'
    """
    names = [name for name, weight in model.named_parameters() if not torch.isfinite(weight).all()]
    if not names:
        return None
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return f"the weights {shown} are no finite numbers; take a checkpoint from before the model diverged"
