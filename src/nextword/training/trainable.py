"""Which parameters of a model a training changes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nextword.training.adapters import adapted
from nextword.training.groups import trained_groups
from nextword.training.settings import TrainingSettings

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


@contextlib.contextmanager
def trainable(model: PreTrainedModel, settings: TrainingSettings, seed: int) -> Iterator[None]:
    """Inside the ``with`` block, what requires a gradient is what is trained; afterwards it is as before.

    Raises:
        ValueError: The settings ask for what the model cannot give.
    """
    with _frozen(model, settings.freeze_output_embeddings), adapted(model, settings.lora, seed):
        yield


@contextlib.contextmanager
def _frozen(model: PreTrainedModel, freeze: bool) -> Iterator[None]:
    """Leaves the output embeddings (and what is tied to them) untrained inside the ``with`` block."""
    output: torch.nn.Module | None = model.get_output_embeddings() if freeze else None
    if freeze and output is None:
        raise ValueError(f"freeze_output_embeddings: {type(model).__name__} has no output embeddings")
    stopped = [parameter for parameter in output.parameters() if parameter.requires_grad] if output is not None else []
    for parameter in stopped:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in stopped:
            parameter.requires_grad_(True)


def trained_parts(model: PreTrainedModel, settings: TrainingSettings) -> list[str]:
    """Names of the groups of parameters that would be trained.

    Raises:
        ValueError: The settings ask for what the model cannot give.
    """
    with trainable(model, settings, seed=0):
        return list(trained_groups(model))


def with_own_rates(settings: TrainingSettings, model: PreTrainedModel) -> TrainingSettings:
    """The settings with the learning rates of those parts only that the model trains."""
    if not settings.learning_rates:
        return settings
    parts = trained_parts(model, settings)
    rates = {name: rate for name, rate in settings.learning_rates.items() if name in parts}
    return settings.model_copy(update={"learning_rates": rates})
