"""Select the trainable parameters of a model."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import set_seed

from nextword.experiments.training.learning_rates import parameter_groups, trained_groups
from nextword.experiments.training.settings import LoraSettings, TrainingSettings
from nextword.runtime import optional_libraries as extras
from nextword.runtime.weights import free_memory

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@contextlib.contextmanager
def trainable(model: PreTrainedModel, settings: TrainingSettings, seed: int) -> Iterator[None]:
    """Freezes, in a ``with`` block, the parameters that a training with ``settings`` does not train.

    Low-rank adapters are added as in ``lora_adapters``. After the block, ``requires_grad`` is as before.

    Raises:
        ValueError: If the settings do not fit the model.
    """
    stopped = [parameter for parameter in _left_alone(model, settings) if parameter.requires_grad]
    for parameter in stopped:
        parameter.requires_grad_(False)
    try:
        with lora_adapters(model, settings.lora, seed):
            yield
    finally:
        for parameter in stopped:
            parameter.requires_grad_(True)


def _left_alone(model: PreTrainedModel, settings: TrainingSettings) -> list[nn.Parameter]:
    if settings.trains == "head":
        groups = parameter_groups(model)
        if "head" not in groups:
            raise ValueError(
                "trains: must not be 'head' for a head without parameters of its own; calibrate it ('nextword attach "
                "--held', or '--states'), leave it untrained (in comparisons methods.0.trained=false), choose another "
                "head such as softmax+proj, or train all through the model"
            )
        return [parameter for name, group in groups.items() if name != "head" for parameter in group]
    if settings.freeze_output_embeddings:
        output: nn.Module | None = model.get_output_embeddings()
        if output is None:
            raise ValueError(f"freeze_output_embeddings: {type(model).__name__} has no output embeddings")
        return list(output.parameters())  # tied to other parameters or not
    return []


def trained_group_names(model: PreTrainedModel, settings: TrainingSettings) -> list[str]:
    """Names of the parameter groups that a training with ``settings`` would train."""
    with trainable(model, settings, seed=0):
        return list(trained_groups(model))


SMALLER = "train the head alone (training.trains=head) or adapters (training.lora.rank=8)"
"""Advice to reduce the memory of a training."""

UPDATED = 3
"""How many numbers training stores for each parameter besides its value: its gradient and Adam's two moments."""


def free_to_train() -> int | None:
    """Free bytes on the training device; None if unknown."""
    if torch.cuda.is_available():
        return torch.cuda.mem_get_info()[0]
    return None if torch.accelerator.is_available() else free_memory()


def expect_room(model: nn.Module, settings: TrainingSettings) -> None:
    """Raise ValueError if gradients and Adam's moments of the trained parameters do not fit into memory.

    Sharded models are not checked.
    """
    free = free_to_train()
    if free is None or settings.fsdp or settings.shard_vocabulary:
        return
    trained = [one for one in model.parameters() if one.requires_grad]
    moved = [one for one in model.parameters() if one.device.type == "cpu"] if torch.cuda.is_available() else []
    needed = UPDATED * sum(one.nbytes for one in trained) + sum(one.nbytes for one in moved)
    if needed > free:
        instead = "choose a smaller model" if settings.lora is not None or settings.trains == "head" else SMALLER
        raise ValueError(
            f"training: must fit into the memory (gradients and Adam's moments of {sum(map(torch.numel, trained)):,} "
            f"numbers take {needed / 2**30:.1f} GiB beside the weights, {free / 2**30:.1f} GiB are free); {instead}"
        )


def trained_modules(model: nn.Module) -> dict[str, int]:
    """A mapping from module name to number of parameters, for outermost modules whose parameters are all trainable.

    A trainable parameter of a module that is not fully trainable has its own entry. A shared parameter is counted once,
    under its first name. Entries that differ only in the layer's number are merged, with a ``*`` for the number.

    >>> from torch import nn
    >>> block = nn.ModuleDict({"norm": nn.LayerNorm(4), "mlp": nn.Linear(4, 4)})
    >>> model = nn.Sequential(block, nn.Linear(4, 9, bias=False))
    >>> _ = block["norm"].requires_grad_(False)
    >>> trained_modules(model)
    {'0.mlp': 20, '1': 36}
    """
    alike: dict[str, dict[str, int]] = {}
    for name, count in _outermost(model, "", set()):
        alike.setdefault(re.sub(r"\.\d+\.", ".*.", name), {})[name] = count
    return {pattern if len(group) > 1 else next(iter(group)): sum(group.values()) for pattern, group in alike.items()}


def _outermost(module: nn.Module, name: str, taken: set[int]) -> Iterator[tuple[str, int]]:
    rest = [one for one in module.parameters() if id(one) not in taken]
    if rest and all(one.requires_grad for one in rest):
        taken.update(map(id, rest))
        yield name or "all", sum(one.numel() for one in rest)
        return
    inside = f"{name}." if name else ""
    for key, one in module.named_parameters(recurse=False):
        if one.requires_grad and id(one) not in taken:
            taken.add(id(one))
            yield f"{inside}{key}", one.numel()
    for key, child in module.named_children():
        yield from _outermost(child, f"{inside}{key}", taken)


def with_applicable_rates(settings: TrainingSettings, model: PreTrainedModel) -> TrainingSettings:
    """``settings`` without learning rates of parameter groups that the model does not train."""
    if not settings.learning_rates:
        return settings
    parts = trained_group_names(model, settings)
    rates = {name: rate for name, rate in settings.learning_rates.items() if name in parts}
    return settings.model_copy(update={"learning_rates": rates})


# -- Low-rank adapters in the backbone during training. Afterwards they are merged into its weights.


def expect_peft() -> None:
    """Raise ValueError if the package peft is missing."""
    if extras.missing(["peft"]):
        raise ValueError(f"training.lora: needs the package peft, not installed here ({extras.install('lora')})")


@contextlib.contextmanager
def lora_adapters(model: PreTrainedModel, settings: LoraSettings | None, seed: int) -> Iterator[None]:
    """In a ``with`` block, the backbone has adapters and its other weights are frozen. ``settings=None``: no adapters.

    Outside the backbone, all parts are trained as before: head, conditioner, untied output embeddings, and an auxiliary
    encoder if it was trainable. At the end the adapters are merged into the weights (after an error they are only
    removed), and ``requires_grad`` is restored. ``seed`` initialises one matrix of each adapter. The other matrix is
    zero, so adapters change nothing at first.

    Raises:
        ValueError: If peft is not installed, or ``settings.targets`` names no layer or includes an embedding.
    """
    if settings is None:
        yield
        return
    expect_peft()
    backbone: Any = getattr(model, "backbone", model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    set_seed(seed)
    try:
        adapters = _injected(backbone, settings)
        try:
            output, inputs = backbone.get_output_embeddings(), backbone.get_input_embeddings()
            tied = set() if inputs is None else set(inputs.parameters())
            for parameter in () if output is None else output.parameters():
                if parameter not in tied:
                    parameter.requires_grad_(parameter in set(trained))
            yield
        except BaseException:
            adapters.unload()
            raise
        adapters.merge_and_unload()
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def _injected(backbone: Any, settings: LoraSettings) -> Any:
    from peft import LoraConfig, LoraModel

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]  # a float also works
        lora_dropout=settings.dropout,
        target_modules=settings.targets,
    )
    embeddings = backbone.get_input_embeddings(), backbone.get_output_embeddings()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="fan_in_fan_out")  # peft chooses the right value for GPT-2
            warnings.filterwarnings("ignore", message=".*tie_word_embeddings")  # an error follows below
            adapters: Any = LoraModel(backbone, config, "default")
    except ValueError as problem:
        raise ValueError(f"training.lora.targets: {problem}") from problem
    if (backbone.get_input_embeddings(), backbone.get_output_embeddings()) != embeddings:
        adapters.unload()
        raise ValueError("training.lora.targets: must not be input or output embeddings; leave them out")
    return adapters
