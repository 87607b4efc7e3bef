"""``transformers.Trainer`` with learning rates of their own for parts of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import Trainer

from nextword.experiments.training.settings import FineTuning, TrainingSettings
from nextword.runtime.devices import vocabulary_mesh

if TYPE_CHECKING:
    from transformers import PreTrainedModel

REST = "backbone"
"""The group of all parameters that no other group has."""

PARTS = {"encoder": "auxiliary_encoder", "conditioner": "conditioner", "head": "next_word_head"}
"""Groups that are an attribute of a model of ours, before ``REST``, which contains what it is attached to."""

GROUPS = ("output_embeddings", *PARTS, REST)
"""All groups there are."""


def parameter_groups(model: PreTrainedModel) -> dict[str, list[nn.Parameter]]:
    """All parameters of a model by group, each in one; groups without parameters are left out.

    ``output_embeddings`` has what is tied to them too, so that in GPT-2 it has the input embeddings.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2))
    >>> {name: len(parameters) for name, parameters in parameter_groups(gpt2).items()}
    {'output_embeddings': 1, 'backbone': 15}
    """
    modules: dict[str, Any] = {name: getattr(model, attribute, None) for name, attribute in PARTS.items()}
    modules = {"output_embeddings": model.get_output_embeddings(), **modules, REST: model}
    groups: dict[str, list[nn.Parameter]] = {}
    taken: set[nn.Parameter] = set()
    for name, module in modules.items():
        parameters = [one for one in module.parameters() if one not in taken] if module is not None else []
        taken.update(parameters)
        if parameters:
            groups[name] = parameters
    return groups


def trained_groups(model: PreTrainedModel) -> dict[str, list[nn.Parameter]]:
    """The groups of which something is trained, with what is."""
    trained = {name: [one for one in group if one.requires_grad] for name, group in parameter_groups(model).items()}
    return {name: group for name, group in trained.items() if group}


def expect_trained(rates: Iterable[str], model: PreTrainedModel) -> None:
    """Raises ValueError where a rate is given for a group that the model does not have or does not train."""
    groups, trained = parameter_groups(model), trained_groups(model)
    for name in rates:
        if name not in trained:
            problem = "is not trained, all of it is frozen" if name in groups else "is not a group of this model"
            raise ValueError(f"learning_rates.{name}: {problem}; it trains {', '.join(trained) or 'nothing'}")


NEW = ("head", "conditioner")
"""Groups that are new where a head is attached to a pretrained model."""

HARSH = 1e-3
"""Learning rate above which a pretrained model forgets what it knows within a few steps, about."""


def harsh_rates(settings: TrainingSettings, groups: Iterable[str]) -> list[str]:
    """What is to be said of rates that are too high for the pretrained weights of these groups: a line, or none."""
    # low-rank adapters are new parameters too
    old = [name for name in groups if name not in NEW and not (name == REST and settings.lora is not None)]
    highest = max((settings.learning_rates.get(name, settings.learning_rate) for name in old), default=0.0)
    if highest <= HARSH:
        return []
    return [
        f"training.learning_rate: {highest:g} is much for a pretrained model, which forgets what it knows; give about "
        f"{FineTuning().learning_rate:g}, and training.learning_rates.head={highest:g} where new parameters want more"
    ]


class GroupedTrainer(Trainer):
    """``transformers.Trainer`` with learning rates for some groups; the others have ``args.learning_rate``."""

    def __init__(self, rates: Mapping[str, float], *args: Any, **kwargs: Any) -> None:
        self._rates = dict(rates)
        super().__init__(*args, **kwargs)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Trainer's own optimiser, its groups (with and without weight decay) split by learning rate."""
        optimizer = super().create_optimizer(model)
        if self._rates:  # without, the optimiser stays as it is, so that earlier checkpoints continue
            prepared: Any = self.model if model is None else model
            groups = parameter_groups(prepared)
            rate_of = {parameter: self._rates.get(name) for name, group in groups.items() for parameter in group}
            optimizer.param_groups = [part for group in optimizer.param_groups for part in _split(group, rate_of)]
        return optimizer

    def create_accelerator_and_postprocess(self) -> None:
        """Trainer's own, and FSDP on a CPU too: accelerate leaves it out there without a word.

        Processes that share a vocabulary read the same batches. For accelerate this is tensor parallelism, which it
        refuses on a CPU where it knows of it beforehand.
        """
        from accelerate import ParallelismConfig
        from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

        super().create_accelerator_and_postprocess()
        state: Any = self.accelerator.state
        model: Any = self.model
        if vocabulary_mesh(model.get_output_embeddings()) is not None:
            state.parallelism_config = ParallelismConfig(tp_size=self.args.world_size)
            state.device_mesh = state.parallelism_config.build_device_mesh(self.args.device.type)
            model._tp_size = self.args.world_size  # accelerate asks for it, and leaves such a model as it is
        if self.args.fsdp and state.distributed_type == DistributedType.MULTI_CPU:
            state.distributed_type = DistributedType.FSDP
            state.fsdp_plugin = FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args)
            self.is_fsdp_enabled = True

    def compute_loss_context_manager(self) -> Any:
        """Trainer's own; with FSDP and bf16 the autocast that accelerate leaves to its own way of sharding."""
        if self.args.fsdp and self.args.bf16:
            return torch.autocast(self.args.device.type, dtype=torch.bfloat16)
        return super().compute_loss_context_manager()

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """The batches of a step; none where the training ended before, which Trainer would follow by one more step.

        That is so where a process was killed between the last checkpoint and whatever comes after the training.
        """
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        return ([], None) if self.control.should_training_stop else super().get_batch_samples(*args, **kwargs)


def _split(group: dict[str, Any], rate_of: Mapping[nn.Parameter, float | None]) -> list[dict[str, Any]]:
    rates = dict.fromkeys(rate_of[parameter] for parameter in group["params"])  # in order, so that it is the same again
    return [
        group
        | ({} if rate is None else {"lr": rate})
        | {"params": [parameter for parameter in group["params"] if rate_of[parameter] == rate]}
        for rate in rates
    ]
