"""A model spread over processes: each holds a share of the weights, their gradients and the optimiser's states (FSDP2).

accelerate would do this by itself, and gives the output layer a group of its own, whose weight can be read in that
layer's forward only. Heads read it afterwards, so here a group is a layer of the backbone, and what is left (the
embeddings, tied or not, head, conditioner) is one group that stays gathered from the forward pass to the gradient.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import nextword as nw
from nextword import processes
from nextword.training.resume import WHOLE

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def shard(model: PreTrainedModel) -> None:
    """Spreads a model over all processes, in place; every process gives the same weights.

    Raises:
        ValueError: The model does not say which of its modules are its layers.
    """
    from torch.distributed.fsdp import fully_shard

    names = set(model._no_split_modules or ())
    layers = [module for module in model.modules() if type(module).__name__ in names]
    if not layers:
        raise ValueError(
            f"training.fsdp: {type(model).__name__} does not name its layers (_no_split_modules), so there is nothing "
            "to share; leave it out"
        )
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)


def save_whole(model: Any, folder: Path) -> None:
    """Gathers a trained model's weights in the main process, which writes them; all processes have to ask."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if processes.is_main():
        model.save_pretrained(folder / WHOLE, state_dict=weights)


def whole_model(model: Any, folder: Path) -> Any:
    """The model that was trained in a folder: itself, or read from there where each process has a share of it."""
    saved = folder / WHOLE
    return nw.load(saved) if saved.is_dir() else model
