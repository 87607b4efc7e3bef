"""What an experiment trains: every training with its settings and the size of its model, before anything is built."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.experiments.comparison.common_start import PLAIN_HEAD
from nextword.experiments.comparison.comparison_settings import CompareConfig, plain
from nextword.experiments.comparison.method import Method
from nextword.experiments.comparison.stage_settings import stage_settings
from nextword.experiments.reproduction.planning.meta_models import ModelSize, method_size, zipf_counts
from nextword.experiments.reproduction.planning.published_models import model_config
from nextword.experiments.reproduction.planning.start_models import start_config, start_training
from nextword.experiments.reproduction.planning.work import (
    PlannedTraining,
    RowLength,
    planned_trainings,
    row_length,
    tokens_of_a_step,
    training_rows,
)
from nextword.experiments.tasks import registry
from nextword.runtime.pretrained import MINILM, encoder_location
from nextword.settings.config import validated

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from nextword.experiments.tasks import Task

START = Method(head=PLAIN_HEAD, label="the start")
"""Whose training the task's own start is."""


@dataclass(frozen=True)
class ExperimentWork:
    """A comparison as far as it can be known before its start is made.

    Attributes:
        config: The comparison.
        task: Its task; None: its data is missing and cannot be made up.
        origin: The comparison that makes its start, with the task: itself, but where it shares another's.
        length: Of a training row; None: not known.
        trainings: All of them, but for the start's.
        beginning: The training of the task's own start; None: there is none, or another comparison has it.
        backbone: Configuration of the start.
        sizes: Of every method's model, those of searches and the start too, by title.
        lacks: What is not here, so that no step can be tried; nothing where all is.
    """

    config: CompareConfig
    task: Task | None
    origin: tuple[CompareConfig, Task | None]
    length: RowLength | None
    trainings: list[PlannedTraining]
    beginning: PlannedTraining | None
    backbone: PretrainedConfig | None
    sizes: Mapping[str, ModelSize]
    lacks: str = ""

    @property
    def all_trainings(self) -> list[PlannedTraining]:
        """The start's first."""
        return [*([self.beginning] if self.beginning is not None else []), *self.trainings]


def experiment_work(
    config: CompareConfig, task: Task | None, origin: tuple[CompareConfig, Task | None] | None = None, lacks: str = ""
) -> ExperimentWork:
    """Everything that follows from settings and data.

    Args:
        config: The comparison.
        task: Its task, with made-up data perhaps.
        origin: The comparison that makes its start, and its task; None: itself.
        lacks: What is known to be missing.

    Raises:
        ValueError: A wrong setting, a start of which nothing is known, or a method that does not fit it, named.
    """
    settings = plain(validated(registry.get(config.task).Config, config.task_settings, "task"))
    encoder = _encoder(config, settings)  # one that is missing is said, whatever else is
    length = row_length(settings, task)
    backbone = start_config(*(origin or (config, task)))
    trainings = planned_trainings(config, training_rows(task), length)
    own = None if origin is not None else start_training(config, task, settings, length)
    beginning = None
    if own is not None:
        steps, rows = own[0].steps, own[1]
        tokens = None if steps is None else steps * tokens_of_a_step(own[0], rows)
        beginning = PlannedTraining("start", START, 0, own[0], 1, steps, tokens)
    sizes = {} if backbone is None else _sizes(config, backbone, encoder)
    return ExperimentWork(config, task, origin or (config, task), length, trainings, beginning, backbone, sizes, lacks)


def _sizes(config: CompareConfig, backbone: PretrainedConfig, encoder: PretrainedConfig | None) -> dict[str, ModelSize]:
    """Every method, those of searches too, built on the meta device; by title."""
    sizes = {}
    with tempfile.TemporaryDirectory() as scratch:
        counts = zipf_counts(backbone.get_text_config(decoder=True).vocab_size, Path(scratch) / "counts.npz")
        for method in (candidate for one in config.methods for candidate in one.candidates):
            try:
                sizes[method.title] = method_size(method, backbone, stage_settings(method, config), encoder, counts)
            except ValueError as problem:
                raise ValueError(f"method '{method.title}': {problem}") from problem
    smallest = min(size.parameters for size in sizes.values())
    return sizes | {START.title: ModelSize(smallest, smallest, smallest)}


def _encoder(config: CompareConfig, settings: Mapping[str, Any]) -> PretrainedConfig | None:
    """Of the auxiliary texts; ``None``: no method has a conditioner."""
    if all(method.conditioner is None for method in config.methods):
        return None
    return model_config(encoder_location(settings.get("encoder") or MINILM, "task.encoder"), "task.encoder")
