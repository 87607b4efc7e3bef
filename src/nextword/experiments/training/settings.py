"""How a model is trained: the part of ``transformers.TrainingArguments`` that a comparison varies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from nextword.settings.config import Settings, validated

LENGTHS = ("steps", "epochs")
WARMUPS = ("warmup_steps", "warmup_ratio")


class LoraSettings(Settings):
    """Low-rank adapters (Hu et al. 2022) in place of the backbone's own weights, merged into them after training."""

    rank: int = Field(default=8, gt=0, le=65_536)
    """Rank of each adapter."""
    alpha: float = Field(default=16.0, gt=0)
    """Adapters are scaled by ``alpha / rank``."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on the adapters' inputs."""
    targets: str | list[str] = "all-linear"
    """Names of the backbone's layers that get one, or a regular expression; ``all-linear`` is every linear layer but
    the output embeddings."""


class TrainingSettings(Settings):
    """Settings of one training. Exactly one of ``steps`` and ``epochs`` says how long it is.

    >>> TrainingSettings(steps=100).learning_rate
    0.0005
    """

    steps: int | None = Field(default=None, gt=0)
    """Optimiser steps."""
    epochs: float | None = Field(default=None, gt=0)
    """Passes over the training data."""
    batch_size: int = Field(default=16, gt=0)
    """Sequences per forward pass, over all processes: started with torchrun, they share them. Where the rows of an
    epoch are not a multiple of it, several processes fill the last batch up with its first rows."""
    gradient_accumulation_steps: int = Field(default=1, gt=0)
    """Forward passes per optimiser step. The loss is divided once, by the number of predicted tokens in all of them."""
    learning_rate: float = Field(default=5e-4, gt=0)
    """Peak learning rate of AdamW."""
    learning_rates: dict[str, Annotated[float, Field(gt=0)]] = Field(default={})
    """Peak learning rates of parts of the model; what is not named here has ``learning_rate``. Parts are ``backbone``,
    ``head``, ``conditioner``, ``encoder`` (that of the auxiliary text) and ``output_embeddings`` (with what is tied to
    them)."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decoupled weight decay, not applied to biases and normalisation layers."""
    scheduler: Literal["linear", "cosine", "constant", "constant_with_warmup"] = "linear"
    """Learning rate after the warm-up."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from 0. Not together with ``warmup_ratio``."""
    warmup_ratio: float = Field(default=0.0, ge=0, lt=1)
    """The same as a share of all steps."""
    max_grad_norm: float = Field(default=1.0, ge=0)
    """Gradients are scaled down to this norm; 0 leaves them alone."""
    consecutive: bool = False
    """Read the rows in the order of the text, and let a head that looks back beyond its window (``cache:long=12288``)
    see those of the batch and of former steps, as TRIME does with its long-term memory. Rows are else shuffled."""
    alike: bool = False
    """Put rows that are similar by BM25 into one batch, and let a head that looks back beyond its window see those
    before it there, as TRIME does with its external memory. Not together with ``consecutive``."""
    bf16: bool = False
    """Forward and backward passes in bfloat16 autocast, weights as ``weights`` says."""
    fp16: bool = False
    """The same in float16, with a scaled loss; needs a GPU."""
    weights: Literal["float32", "bfloat16"] = "float32"
    """Precision in which weights, gradients and optimiser states are held, and the model is saved. ``bfloat16`` takes
    half the memory; a step that changes a weight by less than about 0.3 % is lost in rounding."""
    activation_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    fsdp: bool = False
    """Spread weights, gradients and optimiser states over the processes that torchrun has started (FSDP2), so that each
    holds a share. Without it, each holds all (DDP)."""
    shard_vocabulary: bool = False
    """Divide the rows of the output embedding among the processes that torchrun has started; all of them read the same
    batches. Whatever ``save_every`` says, it writes no checkpoints while it trains, and begins again when killed."""
    trains: Literal["all", "head"] = "all"
    """What is trained: everything that can be, or the parameters of the head alone."""
    freeze_output_embeddings: bool = False
    """Do not train the output embeddings. Where they are tied to the input embeddings, those are frozen as well."""
    lora: LoraSettings | None = None
    """Train low-rank adapters in the backbone and leave its own weights as they are. Head, conditioner and output
    embeddings that are not tied are trained in full."""
    log_every: int = Field(default=10, gt=0)
    """Steps between two points of the training curve."""
    evaluate_every: int | None = Field(default=None, gt=0)
    """Steps between two validation losses; none by default."""
    keep_best: bool = False
    """Keep the weights of the lowest validation loss, not those of the last step. Each better one is a checkpoint."""
    patience: int | None = Field(default=None, gt=0)
    """Stop after so many validation losses without improvement; None: never."""
    min_improvement: float = Field(default=0.0, ge=0)
    """Nats per token by which a validation loss must be lower than the best before to count for ``patience``."""
    save_every: int | None = Field(default=200, gt=0)
    """Steps between two checkpoints that an interrupted training resumes from; ``None`` saves none."""
    dataloader_workers: int = Field(default=0, ge=0, le=1024)
    """Processes that prepare batches; 0 prepares them in the training process."""
    report_to: list[str] = Field(default=[])
    """Trackers of transformers to log to, for instance ``["tensorboard"]``, ``["wandb"]`` or ``["trackio"]``."""

    @property
    def checkpoint_every(self) -> int | None:
        """Steps between two checkpoints; None where there are none."""
        return None if self.shard_vocabulary else self.save_every

    def steps_over(self, rows: int) -> int:
        """Optimiser steps of a training on so many rows, as Trainer counts them.

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
                raise ValueError(f"give either {one} or {other}, not both")
        return self

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.fp16 and self.weights == "bfloat16":
            raise ValueError("fp16: its scaled loss needs weights in float32; leave out fp16 or weights")
        for name in ("keep_best", "patience"):
            if getattr(self, name) and self.evaluate_every is None:
                raise ValueError(f"{name}: goes by the validation loss; give evaluate_every as well")
        if self.keep_best and self.checkpoint_every is None:
            needed = (
                "leave out shard_vocabulary, which writes none" if self.shard_vocabulary else "give save_every as well"
            )
            raise ValueError(f"keep_best: the best weights lie in a checkpoint; {needed}")
        if self.fsdp and self.lora is not None:
            raise ValueError(
                "fsdp: adapters are merged into whole weights, which no process has; leave out fsdp or lora"
            )
        if self.shard_vocabulary and (self.fsdp or self.lora is not None):
            raise ValueError(
                "shard_vocabulary: cannot go with fsdp, which divides the same rows in another way, nor with lora, "
                "which is merged into whole weights; leave out one of them"
            )
        if self.trains == "head" and (self.lora is not None or self.freeze_output_embeddings):
            raise ValueError('trains: "head" leaves all else as it is; give neither lora nor freeze_output_embeddings')
        return self


class FineTuning(Settings):
    """What a pretrained model is trained with where nothing else is asked for, by every verb and every task.

    Its length and its batches are those of the task or of the verb. New parameters begin at random or at zero and have
    further to go than weights that somebody has trained, so they have a rate of their own.

    >>> FineTuning().over({"steps": 200, "learning_rate": 2e-3}, {})["learning_rate"]
    5e-05
    """

    learning_rate: float = Field(default=5e-5, gt=0)
    """Peak learning rate of the pretrained weights."""
    new_parameters: float = Field(default=1e-3, gt=0)
    """Peak learning rate of what a head and a conditioner add."""
    adapters: float = Field(default=5e-4, gt=0)
    """Peak learning rate of low-rank adapters, with ``lora``."""
    warmup_ratio: float = Field(default=0.06, ge=0, lt=1)
    """Share of the steps over which the rates rise from 0."""

    def over(self, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults of a training that begins from a pretrained model, over those of the task for a small one.

        A ``learning_rate`` that is given is that of new parameters and adapters too.
        """
        rates = {"head": self.new_parameters, "conditioner": self.new_parameters}
        if given.get("lora"):
            rates["backbone"] = self.adapters  # all that is trained of it
        own = {"learning_rate": self.learning_rate, "warmup_ratio": self.warmup_ratio}
        return {**defaults, **own, "learning_rates": {} if "learning_rate" in given else rates}


def overlaid(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Settings over settings, the later before the earlier.

    A setting of ``epochs`` also replaces an earlier one of ``steps``, and the other way round; likewise the two
    warm-ups. Learning rates of parts are replaced part by part.

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
    """The defaults, ``overlaid`` with the overrides; ValueError for a wrong setting, named as ``where.key``."""
    return validated(TrainingSettings, overlaid(defaults, overrides), where)
