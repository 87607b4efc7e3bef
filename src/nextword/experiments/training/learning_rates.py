"""``transformers.Trainer`` with separate learning rates for parameter groups."""

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
"""Group of all parameters that are in no other group."""

PARTS = {"encoder": "auxiliary_encoder", "conditioner": "conditioner", "head": "next_word_head"}
"""Groups that are attributes of nextword models. All other parameters are in ``REST``."""

GROUPS = ("output_embeddings", *PARTS, REST)
"""All groups."""


def parameter_groups(model: PreTrainedModel) -> dict[str, list[nn.Parameter]]:
    """A mapping from the name of a group, one of ``GROUPS``, to the model's parameters in this group.

    Each parameter is in one group, and empty groups are left out. ``output_embeddings`` includes tied parameters: in
    GPT-2, the input embeddings.

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
    """``parameter_groups`` with only the parameters that require gradients, again without empty groups."""
    trained = {name: [one for one in group if one.requires_grad] for name, group in parameter_groups(model).items()}
    return {name: group for name, group in trained.items() if group}


def expect_trained(rates: Iterable[str], model: PreTrainedModel) -> None:
    """Raise ValueError if ``rates`` names a parameter group that the model does not have or does not train."""
    groups, trained = parameter_groups(model), trained_groups(model)
    for name in rates:
        if name not in trained:
            problem = "is not trained, all of it is frozen" if name in groups else "is not a group of this model"
            raise ValueError(f"learning_rates.{name}: {problem}; it trains {', '.join(trained) or 'nothing'}")


NEW = ("head", "conditioner")
"""Groups whose parameters are new when a head is attached to a pretrained model."""

HARSH = 1e-3
"""Approximate learning rate above which a pretrained model forgets within a few steps what it has learned."""


def harsh_rates(settings: TrainingSettings, groups: Iterable[str]) -> list[str]:
    """A list with a warning if a learning rate of pretrained weights in ``groups`` is above ``HARSH``, otherwise []."""
    # low-rank adapters are new parameters
    old = [name for name in groups if name not in NEW and not (name == REST and settings.lora is not None)]
    highest = max((settings.learning_rates.get(name, settings.learning_rate) for name in old), default=0.0)
    if highest <= HARSH:
        return []
    return [
        f"training.learning_rate: {highest:g} is high for a pretrained model, which may forget what it learned; use "
        f"about {FineTuning().learning_rate:g}, and training.learning_rates.head={highest:g} if new parameters need "
        "more"
    ]


class GroupedTrainer(Trainer):
    """``transformers.Trainer`` with a learning rate for each group in ``rates``; for other groups, that of ``args``."""

    def __init__(self, rates: Mapping[str, float], *args: Any, **kwargs: Any) -> None:
        self._rates = dict(rates)
        super().__init__(*args, **kwargs)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Create Trainer's optimiser. Its groups (with and without weight decay) are split by learning rate."""
        optimizer = super().create_optimizer(model)
        if self._rates:  # otherwise the optimiser is not changed, so that earlier checkpoints can be resumed
            prepared: Any = self.model if model is None else model
            groups = parameter_groups(prepared)
            rate_of = {parameter: self._rates.get(name) for name, group in groups.items() for parameter in group}
            optimizer.param_groups = [part for group in optimizer.param_groups for part in _split(group, rate_of)]
        return optimizer

    def create_accelerator_and_postprocess(self) -> None:
        """Enable FSDP on a CPU too, where accelerate silently skips it.

        If the vocabulary is sharded, tensor parallelism is configured, so that accelerate gives all processes the same
        batches. It is configured here, because accelerate rejects an earlier configuration on a CPU.
        """
        from accelerate import ParallelismConfig
        from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

        super().create_accelerator_and_postprocess()
        state: Any = self.accelerator.state
        model: Any = self.model
        if vocabulary_mesh(model.get_output_embeddings()) is not None:
            state.parallelism_config = ParallelismConfig(tp_size=self.args.world_size)
            state.device_mesh = state.parallelism_config.build_device_mesh(self.args.device.type)
            model._tp_size = self.args.world_size  # accelerate reads this attribute, and does not change such a model
        if self.args.fsdp and state.distributed_type == DistributedType.MULTI_CPU:
            state.distributed_type = DistributedType.FSDP
            state.fsdp_plugin = FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args)
            self.is_fsdp_enabled = True

    def compute_loss_context_manager(self) -> Any:
        """Add bf16 autocast to sharded training, because accelerate does not add it with our sharding."""
        if self.args.fsdp and self.args.bf16:
            return torch.autocast(self.args.device.type, dtype=torch.bfloat16)
        return super().compute_loss_context_manager()

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """The batches of a step; an empty list if the training has already ended, where Trainer would do one more step.

        A resumed training has already ended if it was killed between its last checkpoint and its end.
        """
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        return ([], None) if self.control.should_training_stop else super().get_batch_samples(*args, **kwargs)


def _split(group: dict[str, Any], rate_of: Mapping[nn.Parameter, float | None]) -> list[dict[str, Any]]:
    rates = dict.fromkeys(rate_of[parameter] for parameter in group["params"])  # a dict keeps the order in every run
    return [
        group
        | ({} if rate is None else {"lr": rate})
        | {"params": [parameter for parameter in group["params"] if rate_of[parameter] == rate]}
        for rate in rates
    ]
