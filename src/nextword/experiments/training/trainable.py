"""Which parameters of a model a training changes."""

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
    """Inside the ``with`` block, what requires a gradient is what is trained; afterwards it is as before.

    Raises:
        ValueError: The settings ask for what the model cannot give.
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
                "trains: there is nothing to train where it is 'head' and the head has no parameters of its own; "
                "calibrate it ('nextword attach --held'), choose another head such as softmax+proj, or train all "
                "through the model"
            )
        return [parameter for name, group in groups.items() if name != "head" for parameter in group]
    if settings.freeze_output_embeddings:
        output: nn.Module | None = model.get_output_embeddings()
        if output is None:
            raise ValueError(f"freeze_output_embeddings: {type(model).__name__} has no output embeddings")
        return list(output.parameters())  # which may be tied to others
    return []


def trained_group_names(model: PreTrainedModel, settings: TrainingSettings) -> list[str]:
    """Names of the groups of parameters that would be ``trainable``."""
    with trainable(model, settings, seed=0):
        return list(trained_groups(model))


SMALLER = "train the head alone (training.trains=head) or adapters (training.lora.rank=8)"
"""What takes less memory than training everything."""

UPDATED = 3
"""Numbers that are held of each trained number beside itself: its gradient and Adam's two moments."""


def free_to_train() -> int | None:
    """Bytes that are free on the device that trains; None where it does not say."""
    if torch.cuda.is_available():
        return torch.cuda.mem_get_info()[0]
    return None if torch.accelerator.is_available() else free_memory()


def expect_room(model: nn.Module, settings: TrainingSettings) -> None:
    """Raises ValueError where what is trained now cannot fit, however small the batches: before, not after hours.

    Models that are sharded over processes are not checked.
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
    """What of a model is trained now: the outermost modules of which all parameters are, each with their number.

    A parameter that is trained by itself stands under its own name, and one shared by two places under the first of
    them. What differs in the number of its layer only is one entry, with a ``*`` for the number.

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
    """The settings with the learning rates of those parts only that the model trains."""
    if not settings.learning_rates:
        return settings
    parts = trained_group_names(model, settings)
    rates = {name: rate for name, rate in settings.learning_rates.items() if name in parts}
    return settings.model_copy(update={"learning_rates": rates})


# -- Low-rank adapters in the backbone while it is trained, merged into its weights afterwards.


def expect_peft() -> None:
    """Raises ValueError where the package that makes adapters is not there."""
    if extras.missing(["peft"]):
        raise ValueError(f"training.lora: needs the package peft, not installed here ({extras.install('lora')})")


@contextlib.contextmanager
def lora_adapters(model: PreTrainedModel, settings: LoraSettings | None, seed: int) -> Iterator[None]:
    """Gives the backbone adapters inside the ``with`` block and freezes the rest of it; None gives it none.

    What is not part of the backbone is trained as before: head, conditioner, and an auxiliary encoder where it was.
    Untied output embeddings are trained, too. At the end the adapters are merged and gone: the model is a plain
    one again, and what could be trained before can be trained. ``seed`` is that of the adapters' random half; their
    other half is zero, so that they change nothing at first.

    Raises:
        ValueError: peft is not installed, or no layer has such a name, or one does that must not be adapted.
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
        lora_alpha=settings.alpha,  # type: ignore[arg-type]  # a float works as well
        lora_dropout=settings.dropout,
        target_modules=settings.targets,
    )
    embeddings = backbone.get_input_embeddings(), backbone.get_output_embeddings()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="fan_in_fan_out")  # peft sets it right for GPT-2's layers itself
            warnings.filterwarnings("ignore", message=".*tie_word_embeddings")  # refused below
            adapters: Any = LoraModel(backbone, config, "default")
    except ValueError as problem:
        raise ValueError(f"training.lora.targets: {problem}") from problem
    if (backbone.get_input_embeddings(), backbone.get_output_embeddings()) != embeddings:
        adapters.unload()
        raise ValueError("training.lora.targets: input and output embeddings take no adapter; leave them out")
    return adapters
