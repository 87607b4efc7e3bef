"""What the methods of an experiment begin from: its configuration, and its own training where it has one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.reproduction.planning.published_models import model_config
from nextword.experiments.reproduction.planning.stand_in_tokenizer import stand_in_tokenizer
from nextword.experiments.reproduction.planning.work import RowLength
from nextword.experiments.tasks import registry
from nextword.experiments.tasks.parts.architecture import architecture_of
from nextword.experiments.tasks.parts.small_start import SmallStart
from nextword.experiments.training.settings import TrainingSettings, merged

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from nextword.experiments.tasks import Task


def start_config(config: CompareConfig, task: Task | None) -> PretrainedConfig | None:
    """The configuration of the start; ``None``: only the task can say it, and its data is missing.

    No tokenizer is trained for it: where settings give the size of one, a stand-in of that size does.

    Raises:
        ValueError: A model of which nothing is known here, or of another architecture than the task's.
    """
    wanted = registry.get(config.task).architecture
    if config.start.model is not None:
        known = model_config(config.start.model, "start.model")
        if architecture_of(known) != wanted:
            raise ValueError(
                f"start.model: must be {wanted.name} for task '{config.task}' ({config.start.model} given, "
                f"{architecture_of(known).name})"
            )
        return known
    if task is None:
        return None
    if isinstance(task.start, SmallStart):
        return task.start.architecture(_tokenizer(task))
    return task.start.pretraining(task.start.tokenizer(), config.start.seed).model_config


def _tokenizer(task: Task) -> Any:
    size, named = getattr(task.config, "vocabulary", None), getattr(task.config, "tokenizer", None)
    if size is None or named is not None:
        return task.start.tokenizer()
    tokenizer = stand_in_tokenizer(size)
    tokenizer.add_tokens(list(getattr(task.start, "tokens", ())))
    return tokenizer


def start_training(
    config: CompareConfig, task: Task | None, settings: Mapping[str, Any], length: RowLength | None
) -> tuple[TrainingSettings, RowLength] | None:
    """How the task's own start is trained, and on rows of which length; ``None``: it is not, or nobody knows.

    Raises:
        ValueError: A setting of ``start.training`` that there is not.
    """
    if config.start.model is not None or task is None:
        return None
    if isinstance(task.start, SmallStart):
        defaults = task.start.training
    else:
        defaults = task.start.pretraining(task.start.tokenizer(), config.start.seed).settings
    if {**defaults, **config.start.training}.get("steps") == 0:
        return None
    block = settings.get("start", {}).get("block")
    rows = length if block is None else RowLength(block, "exactly")
    return None if rows is None else (merged(defaults, config.start.training, "start.training"), rows)


def raw_paths(data: Mapping[str, Any]) -> list[str]:
    """Data as experiments name it, as overrides: for a plan without that data."""
    return [f"{key}={json.dumps(wanted)}" for key, wanted in data.items()]
