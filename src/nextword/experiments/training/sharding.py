"""A sharded model (FSDP2): each process holds a share of weights, gradients and the optimiser's states.

accelerate would do this by itself, and gives the output layer a group of its own, whose weight can be read in that
layer's forward only. Heads read it afterwards, so here a group is a layer of the backbone, and what is left (the
embeddings, tied or not, head, conditioner) is one group that stays gathered from the forward pass to the gradient.

``share_vocabulary`` is for an output embedding that no process is to hold as a whole: it is never gathered.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from nextword.experiments.training.resume import WHOLE
from nextword.model.attach import load
from nextword.runtime import processes
from nextword.runtime.devices import VOCABULARY
from nextword.runtime.weights import copy_on_disk

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def shard(model: PreTrainedModel) -> None:
    """Shards a model over all processes that a launcher has started, in place; every process gives the same weights.

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
    precisions = {weight.dtype: name for name, weight in model.named_parameters() if weight.is_floating_point()}
    if len(precisions) > 1:
        given = " and ".join(f"{dtype} in {name}" for dtype, name in precisions.items())
        raise ValueError(f"training.fsdp: weights must have one precision ({given} given); leave out training.weights")
    processes.connect()  # one process alone, which continues where several were stopped, is in no group yet
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)


def share_vocabulary(model: PreTrainedModel) -> None:
    """Divides the output embedding among all processes, in place: each holds a range of its rows, a DTensor.

    Every process gives the same weights, and then reads the same batches. Input embeddings that are tied to it are
    divided with it.

    Raises:
        ValueError: The model has a conditioner, its output layer is not a plain one, or it has so few tokens that a
            process would get none.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    output: Any = model.get_output_embeddings()
    _expect_divisible(model, output)
    mesh = init_device_mesh(output.weight.device.type, (processes.count(),), mesh_dim_names=(VOCABULARY,))
    tied = [module for module in model.modules() if isinstance(module, nn.Embedding) and module.weight is output.weight]
    # the caller of the layer gets all scores; the style itself would leave a collective open where nobody reads them
    parallelize_module(output, mesh, ColwiseParallel(output_layouts=Shard(-1), use_local_output=False))
    output.register_forward_hook(lambda layer, states, scores: scores.full_tensor())
    for embedding in tied:
        parallelize_module(embedding, mesh, RowwiseParallel(input_layouts=Replicate()))
        embedding.weight = output.weight


def _expect_divisible(model: Any, output: Any) -> None:
    where = "training.shard_vocabulary"
    if getattr(model, "conditioner", None) is not None:
        raise ValueError(f"{where}: divides models without a conditioner, and this one has one; leave it out")
    if type(output) is not nn.Linear:
        raise ValueError(
            f"{where}: divides the rows of a plain linear layer, and the output layer is a {type(output).__name__}; "
            "leave it out"
        )
    tokens, count = len(output.weight), processes.count()
    if (count - 1) * -(-tokens // count) >= tokens:
        raise ValueError(f"{where}: {tokens} tokens are too few for {count} processes; start fewer")


def save_whole(model: Any, folder: Path) -> None:
    """Gathers a trained model's weights on the disk, one after another, and there the main process writes the model.

    All processes have to ask.
    """
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    from torch.distributed.tensor import DTensor

    weights: dict[str, Tensor] = {}
    shares: dict[str, Any] = get_model_state_dict(model)
    for name, share in shares.items():
        weight = share.full_tensor() if isinstance(share, DTensor) else share
        if processes.is_main():
            weights[name] = copy_on_disk(weight, folder)
    if processes.is_main():
        model.save_pretrained(folder / WHOLE, state_dict=weights)


def whole_model(model: Any, folder: Path) -> Any:
    """The model that was trained in a folder: itself, or read from there where each process has a share of it."""
    saved = folder / WHOLE
    return load(saved) if saved.is_dir() else model
