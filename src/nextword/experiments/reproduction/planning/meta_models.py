"""Every method of a comparison on the start's architecture, made on the meta device: shapes and no memory."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nextword.conditioning import parse_conditioner
from nextword.conditioning.auxiliary_encoder import new_encoder
from nextword.experiments.comparison.method import Method
from nextword.experiments.tasks.head_counts import with_counts
from nextword.experiments.tasks.task import architecture_of
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.trainable import trainable
from nextword.functional.frequency import TokenCounts
from nextword.heads import parse_head
from nextword.model.conditioned_model import choose_trained, untie
from nextword.model.modeling import NextWordForCausalLM, NextWordForSeq2SeqLM
from nextword.objectives import parse_objective

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class ModelSize:
    """How many numbers a model has.

    Attributes:
        parameters: Tied ones counted once.
        trained: Those that have gradients.
        passed: Those that a token of a row goes through: all but an encoder that reads another text.
    """

    parameters: int
    trained: int
    passed: int


def method_size(
    method: Method,
    backbone: PretrainedConfig,
    stages: list[TrainingSettings],
    encoder: PretrainedConfig | None = None,
    counts: Path | None = None,
) -> ModelSize:
    """Builds what a method trains, in each of its stages, and what it is measured as; the size is of the largest.

    Raises:
        ValueError: Head, objective, conditioner, backbone and training do not go together.
    """
    largest = ModelSize(0, 0, 0)
    for number, objective in enumerate(method.objectives):
        model = _model(method, objective, method.trained_head, backbone, encoder, counts)
        settings = stages[number] if number < len(stages) else None
        largest = max(largest, _size(model, settings), key=lambda size: (size.parameters, size.trained))
    if method.trained_as:
        _model(method, "mle", method.head, backbone, encoder, counts)
    return largest


def zipf_counts(vocabulary: int, path: Path) -> Path:
    """Token counts as texts have them, for heads whose shape depends on counts that are not made yet."""
    counts = (1_000_000 / np.arange(1, vocabulary + 1)).astype(np.int64) + 1
    TokenCounts(counts, tokenizer=None, source="a stand-in").save(path)
    return path


def _model(
    method: Method,
    objective: Any,
    head: Any,
    backbone: PretrainedConfig,
    encoder: PretrainedConfig | None,
    counts: Path | None,
) -> Any:
    """As ``nextword.attach``, without what can only be found out with weights."""
    conditioner = None if method.conditioner is None else parse_conditioner(method.conditioner)
    architecture = architecture_of(backbone)
    kind: Any = NextWordForSeq2SeqLM if architecture.has_encoder else NextWordForCausalLM
    with torch.device("meta"):
        base = architecture.new(copy.deepcopy(backbone))
        if conditioner is not None and conditioner.unties:
            untie(base)
        reader = None if conditioner is None or encoder is None else new_encoder(encoder.to_dict())
        config = kind.config_class(
            text_config=base.config,
            head=parse_head(with_counts(head, counts)).unbuilt().model_dump(),
            objective=parse_objective(objective).model_dump(),
            conditioner=None if conditioner is None else conditioner.model_dump(),
            auxiliary_encoder=None
            if reader is None
            else {"name": "", "fingerprint": "", "config": reader.config.to_dict()},
        )
        model = kind(config, backbone=base, encoder=reader)
    if conditioner is not None and conditioner.trains == "downstream":
        model.to_empty(device="cpu")  # which layers these are, only a pass tells
    choose_trained(model)
    return model


def _size(model: NextWordModel, settings: TrainingSettings | None) -> ModelSize:
    parameters = sum(one.numel() for one in model.parameters())
    encoder = model.auxiliary_encoder
    passed = parameters - (0 if encoder is None else sum(one.numel() for one in encoder.parameters()))
    if settings is None:
        return ModelSize(parameters, 0, passed)
    with trainable(model, settings, seed=0):
        trained = sum(one.numel() for one in model.parameters() if one.requires_grad)
    return ModelSize(parameters, trained, passed)
