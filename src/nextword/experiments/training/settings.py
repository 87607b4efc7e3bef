"""Training settings: those ``transformers.TrainingArguments`` that nextword offers, and settings of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from nextword.settings.config import Settings, validated

LENGTHS = ("steps", "epochs")
WARMUPS = ("warmup_steps", "warmup_ratio")


class LoraSettings(Settings):
    """Low-rank adapters (Hu et al. 2022), trained instead of the backbone's weights and merged into them afterwards."""

    rank: int = Field(default=8, gt=0, le=65_536)
    """Rank of each adapter."""
    alpha: float = Field(default=16.0, gt=0)
    """The output of each adapter is multiplied by ``alpha / rank``."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on the adapters' inputs."""
    targets: str | list[str] = "all-linear"
    """Names of the backbone's layers that get an adapter, or a regular expression. ``all-linear``: every linear layer
    except the output embeddings."""


class TrainingSettings(Settings):
    """Settings of one training. Exactly one of ``steps`` and ``epochs`` must be given.

    >>> TrainingSettings(steps=100).learning_rate
    0.0005
    """

    steps: int | None = Field(default=None, gt=0)
    """Number of optimiser steps."""
    epochs: float | None = Field(default=None, gt=0)
    """Number of passes over the training data."""
    batch_size: int = Field(default=16, gt=0)
    """Sequences per forward pass, divided among the processes of torchrun. With several processes, an incomplete last
    batch of an epoch is filled with the epoch's first rows."""
    gradient_accumulation_steps: int = Field(default=1, gt=0)
    """Forward passes per optimiser step. The sum of their losses is divided by the number of predicted tokens in all of
    these passes."""
    learning_rate: float = Field(default=5e-4, gt=0)
    """Peak learning rate of AdamW."""
    learning_rates: dict[str, Annotated[float, Field(gt=0)]] = Field(default={})
    """Peak learning rates of parameter groups. A group without a rate has ``learning_rate``. Groups: ``backbone``,
    ``head``, ``conditioner``, ``encoder`` (of the auxiliary text) and ``output_embeddings`` (with tied parameters)."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decoupled weight decay, not applied to biases and normalisation layers."""
    scheduler: Literal["linear", "cosine", "constant", "constant_with_warmup"] = "linear"
    """Schedule of the learning rate after the warm-up."""
    warmup_steps: int = Field(default=0, ge=0)
    """Number of steps over which the learning rate rises from 0. Do not combine it with ``warmup_ratio``."""
    warmup_ratio: float = Field(default=0.0, ge=0, lt=1)
    """Length of the warm-up as a share of all steps."""
    max_grad_norm: float = Field(default=1.0, ge=0)
    """Maximum norm of the gradient. A larger gradient is scaled down to this norm; 0: no limit."""
    consecutive: bool = False
    """Read the rows in the order of the text, not shuffled. The head must have memory beyond its window
    (``cache:long=12288``). It then reads the earlier rows of the batch and of earlier steps, as in TRIME."""
    alike: bool = False
    """Put rows that are similar (by BM25) into one batch. The head must have memory beyond its window
    (``cache:long=12288``). It then reads the earlier rows of the batch. Do not combine it with ``consecutive``."""
    bf16: bool = False
    """Run forward and backward passes in bfloat16 autocast. ``weights`` sets the precision of the stored weights."""
    fp16: bool = False
    """Run forward and backward passes in float16 autocast, with a scaled loss. It needs a GPU."""
    weights: Literal["float32", "bfloat16"] = "float32"
    """Precision of weights, gradients, optimiser states and the saved model. ``bfloat16`` halves the memory, but a
    step that changes a weight by less than about 0.3 % is lost in rounding."""
    activation_checkpointing: bool = False
    """Gradient checkpointing: recompute activations in the backward pass, which saves memory and takes more time."""
    fsdp: bool = False
    """Shard weights, gradients and optimiser states over the processes of torchrun (FSDP2). By default each process
    has a full copy (DDP)."""
    shard_vocabulary: bool = False
    """Shard the rows of the output embedding over the processes of torchrun. All processes read the same batches. No
    checkpoints are written, whatever ``save_every`` is. So an interrupted training starts again."""
    trains: Literal["all", "head"] = "all"
    """Trained parameters: all parameters, or only those of the head."""
    freeze_output_embeddings: bool = False
    """Freeze the output embeddings, and the input embeddings if they are tied."""
    lora: LoraSettings | None = None
    """Train low-rank adapters in the backbone and freeze its weights. Head, conditioner and untied output embeddings
    are trained in full."""
    log_every: int = Field(default=10, gt=0)
    """Steps between two points of the training loss curve."""
    evaluate_every: int | None = Field(default=None, gt=0)
    """Steps between two computations of the validation loss; none: no validation losses."""
    keep_best: bool = False
    """Keep the weights with the lowest validation loss instead of the weights of the last step. A checkpoint is saved
    at each new lowest loss."""
    patience: int | None = Field(default=None, gt=0)
    """Stop after this number of validation losses in a row without improvement; none: never."""
    min_improvement: float = Field(default=0.0, ge=0)
    """For ``patience``, a validation loss is an improvement if it is lower than that of the last improvement by more
    than this value, in nats per token."""
    save_every: int | None = Field(default=200, gt=0)
    """Steps between two checkpoints. An interrupted training resumes from the last one; none: save no checkpoints."""
    dataloader_workers: int = Field(default=0, ge=0, le=1024)
    """Number of processes that prepare batches; 0: the training process prepares them."""
    report_to: list[str] = Field(default=[])
    """Experiment trackers of transformers, for instance ``["tensorboard"]``, ``["wandb"]`` or ``["trackio"]``."""

    @property
    def checkpoint_every(self) -> int | None:
        """Steps between two checkpoints; None: no checkpoints."""
        return None if self.shard_vocabulary else self.save_every

    def steps_over(self, rows: int) -> int:
        """Number of optimiser steps of a training on ``rows`` rows, as in ``transformers.Trainer``.

        >>> TrainingSettings(steps=100).steps_over(80), TrainingSettings(epochs=1.5, batch_size=8).steps_over(20)
        (100, 5)
        """
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return math.ceil(self.epochs * math.ceil(rows / (self.batch_size * self.gradient_accumulation_steps)))

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(f"must have either steps or epochs (steps={self.steps}, epochs={self.epochs} given)")
        for one, other in (("consecutive", "alike"), WARMUPS, ("bf16", "fp16")):
            if getattr(self, one) and getattr(self, other):
                raise ValueError(f"{one}, {other}: must not both be given; leave one out")
        return self

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.fp16 and self.weights == "bfloat16":
            raise ValueError(
                "fp16: must have weights in float32, because of its scaled loss; leave out fp16 or weights"
            )
        for name in ("keep_best", "patience"):
            if getattr(self, name) and self.evaluate_every is None:
                raise ValueError(
                    f"{name}: must be given together with evaluate_every, because it needs validation losses; add "
                    f"evaluate_every"
                )
        if self.keep_best and self.checkpoint_every is None:
            needed = (
                "leave out shard_vocabulary, which writes none" if self.shard_vocabulary else "give save_every as well"
            )
            raise ValueError(f"keep_best: must have checkpoints for the best weights; {needed}")
        if self.fsdp and self.lora is not None:
            raise ValueError(
                "fsdp: must be given without lora, because adapters are merged into whole weights; leave out fsdp "
                "or lora"
            )
        if self.shard_vocabulary and (self.fsdp or self.lora is not None):
            raise ValueError(
                "shard_vocabulary: must be given without fsdp (which shards the same rows differently) and without "
                "lora (which is merged into whole weights); leave out one of them"
            )
        if self.trains == "head" and (self.lora is not None or self.freeze_output_embeddings):
            raise ValueError('trains: must not be "head" with lora or freeze_output_embeddings; leave these out')
        return self


class FineTuning(Settings):
    """Default training settings for a pretrained model, in all commands and tasks.

    The task or the command sets the number of steps and the batch size. New parameters start at random values or zero,
    so they have a higher learning rate than pretrained weights.

    >>> FineTuning().over({"steps": 200, "learning_rate": 2e-3}, {})["learning_rate"]
    5e-05
    """

    learning_rate: float = Field(default=5e-5, gt=0)
    """Peak learning rate of pretrained weights."""
    new_parameters: float = Field(default=1e-4, gt=0)
    """Peak learning rate of the parameters of a head and a conditioner."""
    adapters: float = Field(default=5e-4, gt=0)
    """Peak learning rate of low-rank adapters, with ``lora``."""
    warmup_ratio: float = Field(default=0.06, ge=0, lt=1)
    """Share of the steps over which the learning rates rise from 0."""
    normalize: bool | None = True
    """Whether a head with multiple input states (``+mi``) normalises them if its spec has neither ``norm`` nor ``raw``.
    None: no, as in comparisons that began in earlier versions."""

    def over(self, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``defaults`` with the learning rates and the warm-up for a pretrained model.

        If the user's settings, ``given``, have a ``learning_rate``, new parameters and adapters get no rates of their
        own.
        """
        rates = {"head": self.new_parameters, "conditioner": self.new_parameters}
        if given.get("lora"):
            rates["backbone"] = self.adapters  # only the adapters of the backbone are trained
        own = {"learning_rate": self.learning_rate, "warmup_ratio": self.warmup_ratio}
        return {**defaults, **own, "learning_rates": {} if "learning_rate" in given else rates}


def overlaid(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``layers`` of settings. Settings of a later layer override those of an earlier one.

    A later ``epochs`` also removes an earlier ``steps``, and a later ``steps`` an earlier ``epochs``. The same holds
    for ``warmup_steps`` and ``warmup_ratio``. In ``learning_rates``, each group's rate is replaced separately.

    >>> overlaid({"epochs": 3.0, "batch_size": 8}, {"steps": 20})
    {'batch_size': 8, 'steps': 20}
    """
    values: dict[str, Any] = {}
    for layer in layers:
        for alternatives in (LENGTHS, WARMUPS):
            if any(layer.get(key) is not None for key in alternatives):
                values = {key: value for key, value in values.items() if key not in alternatives}
        rates = [settings["learning_rates"] or {} for settings in (values, layer) if "learning_rates" in settings]
        values = {**values, **layer}
        if rates and all(isinstance(one, Mapping) for one in rates):
            values["learning_rates"] = {name: rate for one in rates for name, rate in one.items()}
    return values


def merged(defaults: Mapping[str, Any], overrides: Mapping[str, Any], where: str) -> TrainingSettings:
    """Training settings from ``overlaid(defaults, overrides)``. ValueError for a wrong setting, named ``where.key``."""
    return validated(TrainingSettings, overlaid(defaults, overrides), where)
