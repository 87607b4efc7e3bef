"""Shard a model (FSDP2): each process has a share of the weights, gradients and optimiser states.

FSDP gathers weights in groups. accelerate would make the output layer a group of its own, whose weight is gathered only
during that layer's forward pass, although heads read this weight later. So here each layer of the backbone is a group.
All other weights (embeddings, head, conditioner) are one group that stays gathered from the forward pass until the
gradient is computed.

``share_vocabulary`` shards the output embedding so that no process has all of it during training.
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
    """Shard a model in place over all processes of a launcher. Every process must pass the same weights.

    Raises:
        ValueError: If the model does not name its layers in ``_no_split_modules``, or its weights differ in precision.
    """
    from torch.distributed.fsdp import fully_shard

    names = set(model._no_split_modules or ())
    layers = [module for module in model.modules() if type(module).__name__ in names]
    if not layers:
        raise ValueError(
            f"training.fsdp: {type(model).__name__} must name its layers in _no_split_modules, because these are "
            f"sharded (none named); leave training.fsdp out"
        )
    precisions = {weight.dtype: name for name, weight in model.named_parameters() if weight.is_floating_point()}
    if len(precisions) > 1:
        given = " and ".join(f"{dtype} in {name}" for dtype, name in precisions.items())
        raise ValueError(f"training.fsdp: weights must have one precision ({given} given); leave out training.weights")
    processes.connect()  # a single process, which resumes a training of several processes, is not in a group yet
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)


def share_vocabulary(model: PreTrainedModel) -> None:
    """Shard the output embedding in place over all processes. Each process gets a range of rows, as a DTensor.

    Every process must pass the same weights. In training, all processes must read the same batches. Tied input
    embeddings are sharded too.

    Raises:
        ValueError: If the model has a conditioner, its output layer is not a linear layer, or there are so few tokens
            that a process would get no row.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    output: Any = model.get_output_embeddings()
    _expect_divisible(model, output)
    mesh = init_device_mesh(output.weight.device.type, (processes.count(),), mesh_dim_names=(VOCABULARY,))
    tied = [module for module in model.modules() if isinstance(module, nn.Embedding) and module.weight is output.weight]
    # the forward hook returns all scores; ColwiseParallel itself would start a collective even if nothing reads them
    parallelize_module(output, mesh, ColwiseParallel(output_layouts=Shard(-1), use_local_output=False))
    output.register_forward_hook(lambda layer, states, scores: scores.full_tensor())
    for embedding in tied:
        parallelize_module(embedding, mesh, RowwiseParallel(input_layouts=Replicate()))
        embedding.weight = output.weight


def _expect_divisible(model: Any, output: Any) -> None:
    where = "training.shard_vocabulary"
    if getattr(model, "conditioner", None) is not None:
        raise ValueError(f"{where}: must be used with a model without a conditioner (this one has one); leave it out")
    if type(output) is not nn.Linear:
        raise ValueError(
            f"{where}: must be used with a linear output layer (a {type(output).__name__} given); leave it out"
        )
    tokens, count = len(output.weight), processes.count()
    if (count - 1) * -(-tokens // count) >= tokens:
        raise ValueError(f"{where}: {tokens} tokens are too few for {count} processes; start fewer processes")


def save_whole(model: Any, folder: Path) -> None:
    """Gather a trained model's weights one after another. The main process saves the model in ``folder/whole``.

    All processes must call this function.
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
    """The model that ``save_whole`` saved in ``folder``, or ``model`` itself if it was not sharded."""
    saved = folder / WHOLE
    return load(saved) if saved.is_dir() else model
