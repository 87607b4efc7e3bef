"""The trainings of an experiment, with settings and model sizes, computed without the weights of models."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from pydantic import JsonValue

from nextword.conditioning import parse_conditioner
from nextword.conditioning.auxiliary_encoder import new_encoder
from nextword.experiments.comparison.comparison_settings import CompareConfig, plain, stage_settings, task_config
from nextword.experiments.comparison.initial_checkpoint import PLAIN_HEAD
from nextword.experiments.comparison.method import Method
from nextword.experiments.reproduction.data_sets import FOLDER, packaged_entries
from nextword.experiments.tasks import registry
from nextword.experiments.tasks.head_counts import with_counts
from nextword.experiments.tasks.small_start import SmallStart
from nextword.experiments.tasks.task import architecture_of
from nextword.experiments.tasks.tokenizers import END, PAD, UNKNOWN, for_transformers
from nextword.experiments.training.settings import TrainingSettings, merged
from nextword.experiments.training.trainable import trainable
from nextword.functional.frequency import TokenCounts
from nextword.heads import parse_head
from nextword.model.conditioned_model import choose_trained, untie
from nextword.model.modeling import NextWordForCausalLM, NextWordForSeq2SeqLM
from nextword.objectives import parse_objective
from nextword.runtime.corpora.gap_sentences import MASK
from nextword.runtime.pretrained import MINILM, encoder_location, from_pretrained, unreadable_explained
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

    from nextword.experiments.tasks import Task
    from nextword.model.modeling import NextWordModel


# -- Every method of a comparison on the start's architecture, made on the meta device: shapes and no memory.


@dataclass(frozen=True)
class ModelSize:
    """Number of parameters of a model.

    Attributes:
        parameters: All parameters, tied ones counted once.
        trained: Trainable parameters.
        passed: Parameters that each token of a row passes through: all except those of an encoder of auxiliary texts.
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
    """Size of the largest model that a method trains. A head for test time (``trained_as``) is only checked.

    Raises:
        ValueError: If head, objective, conditioner, backbone and training are incompatible.
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
    """Write synthetic token counts (Zipf) to ``path``, for heads whose shape depends on counts not made yet."""
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
    """``nextword.attach`` without the steps that need weights."""
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


START = Method(head=PLAIN_HEAD, label="the start")
"""Method that stands for the training of the task's small initial model."""


@dataclass(frozen=True)
class ExperimentWork:
    """Everything known about a comparison before its initial checkpoint exists.

    Attributes:
        config: Settings of the comparison.
        task: The task; None: its data is missing and cannot be synthesised.
        origin: Settings and task of the comparison that makes the initial checkpoint: this comparison or another one.
        length: Tokens per training row; None: unknown.
        trainings: All trainings except that of the initial checkpoint.
        beginning: Training of the initial checkpoint; None: it is not trained, or another comparison trains it.
        backbone: Configuration of the initial checkpoint; None: it depends on missing data.
        sizes: A mapping from title to model size, for all methods, search candidates and the initial checkpoint.
        lacks: Reason why steps cannot be timed; empty if they can.
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
        """All trainings, that of the initial checkpoint first."""
        return [*([self.beginning] if self.beginning is not None else []), *self.trainings]


def experiment_work(
    config: CompareConfig, task: Task | None, origin: tuple[CompareConfig, Task | None] | None = None, lacks: str = ""
) -> ExperimentWork:
    """Compute the trainings of a comparison from its settings and data.

    Args:
        config: Settings of the comparison.
        task: Its task, possibly with synthetic data.
        origin: The comparison that makes the initial checkpoint, and its task; None: ``config`` and ``task``.
        lacks: Reason why steps cannot be timed, see ``ExperimentWork``.

    Raises:
        ValueError: If a setting is wrong, the initial checkpoint is unknown, or a method does not fit it.
    """
    settings = plain(task_config(config))
    encoder = None  # of the auxiliary texts; one that is missing is said, whatever else is
    if any(method.conditioner is not None for method in config.methods):
        encoder = model_config(encoder_location(settings.get("encoder") or MINILM, "task.encoder"), "task.encoder")
    length = row_length(settings, task)
    backbone = start_config(*(origin or (config, task)))
    trainings = planned_trainings(config, training_rows(task), length)
    beginning = None if origin is not None else _start_training(config, task, settings, length)
    sizes = {} if backbone is None else _sizes(config, backbone, encoder)
    return ExperimentWork(config, task, origin or (config, task), length, trainings, beginning, backbone, sizes, lacks)


def _sizes(config: CompareConfig, backbone: PretrainedConfig, encoder: PretrainedConfig | None) -> dict[str, ModelSize]:
    """Model sizes by title of all methods and search candidates, built on the meta device."""
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


# -- The trainings of a comparison: how many, their steps and tokens.


@dataclass(frozen=True)
class RowLength:
    """Tokens per training row (source plus target), and whether the number is exact."""

    tokens: int
    exactness: Literal["exactly", "at most", "about"]


@dataclass(frozen=True)
class PlannedTraining:
    """One training stage of a method; several methods may share it.

    Attributes:
        method: The method.
        stage: 0 for the first stage, 1 for the second.
        settings: Training settings.
        runs: Number of seeds.
        steps: Optimiser steps; None: the length is set in epochs and the number of rows is unknown.
        row: Length of the training rows; None: unknown.
    """

    method: Method
    stage: int
    settings: TrainingSettings
    runs: int
    steps: int | None
    row: RowLength | None

    @property
    def tokens(self) -> int | None:
        """Tokens of all steps with one seed; ``None``: unknown."""
        if self.steps is None or self.row is None:
            return None
        return self.steps * self.settings.batch_size * self.settings.gradient_accumulation_steps * self.row.tokens


def planned_trainings(config: CompareConfig, rows: int | None, length: RowLength | None) -> list[PlannedTraining]:
    """All distinct trainings of a comparison, including searches; ``rows`` is the number of training rows."""
    seeds_of: dict[str, set[int]] = {}
    plans: dict[str, PlannedTraining] = {}
    for method in config.methods:
        for place, candidate in enumerate(method.candidates):
            # of a search each combination is trained once, and one of them with the other seeds too
            searched = {config.seeds[0] if method.search_seed is None else method.search_seed}
            seeds = set(config.seeds) if place == 0 else searched
            stages = stage_settings(candidate, config)
            for stage, (name, settings) in enumerate(zip(candidate.stages, stages, strict=False)):
                seeds_of.setdefault(name, set()).update(seeds | searched if method.search else seeds)
                steps = settings.steps if rows is None else settings.steps_over(rows)
                plans[name] = PlannedTraining(candidate, stage, settings, len(seeds_of[name]), steps, length)
    return list(plans.values())


def row_length(settings: Mapping[str, Any], task: Task | None = None) -> RowLength | None:
    """Tokens per training row: the length in a task's ``settings``, or the mean over the first 200 rows of ``task``.

    ``None`` if ``settings`` has no length and ``task`` is None.

    >>> row_length({"block": 256}), row_length({"max_source_tokens": 500, "max_target_tokens": 60})
    (RowLength(tokens=256, exactness='exactly'), RowLength(tokens=560, exactness='at most'))
    """
    for name in ("block", "length"):
        if name in settings:
            return RowLength(settings[name], "exactly")
    if "max_source_tokens" in settings:
        return RowLength(settings["max_source_tokens"] + settings["max_target_tokens"], "at most")
    if task is None:
        return None
    rows = task.data.training(task.start.tokenizer())
    lengths = [len(rows[place]["input_ids"]) for place in range(min(len(rows), 200))]
    return RowLength(max(1, round(sum(lengths) / len(lengths))), "about")


def training_rows(task: Task | None) -> int | None:
    """Number of training rows, if the task's description states it (pairs or sentences); None: unknown."""
    described = {} if task is None else task.data.describe()
    found = [described[name] for name in ("train_pairs", "train_sentences") if isinstance(described.get(name), int)]
    return int(found[0]) if found else None


# -- What the methods of an experiment begin from: its configuration, and its own training where it has one.


def start_config(config: CompareConfig, task: Task | None) -> PretrainedConfig | None:
    """The configuration of the initial checkpoint; ``None`` if it depends on missing data.

    If the task would train a tokenizer of a given size, a stand-in of this size is used in its place.

    Raises:
        ValueError: If the model is unknown, or its architecture is not that of the task.
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


def _start_training(
    config: CompareConfig, task: Task | None, settings: Mapping[str, Any], length: RowLength | None
) -> PlannedTraining | None:
    """The training of the task's initial checkpoint; ``None`` if there is none or it is unknown.

    Raises:
        ValueError: If ``start.training`` has an unknown setting.
    """
    if config.start.model is not None or task is None:
        return None
    if isinstance(task.start, SmallStart):
        defaults = task.start.training
    else:
        defaults = task.start.pretraining(task.start.tokenizer(), config.start.seed).settings
    block = settings.get("start", {}).get("block")
    rows = length if block is None else RowLength(block, "exactly")
    if rows is None or {**defaults, **config.start.training}.get("steps") == 0:
        return None
    training = merged(defaults, config.start.training, "start.training")
    return PlannedTraining(START, 0, training, 1, training.steps, rows)


# -- Configurations of published models: of a folder, of what was downloaded, or by their sizes, without a network.


class PublishedModel(Settings):
    """Configuration of a published model, to build it without weights."""

    type: str
    """Architecture name in transformers."""
    settings: dict[str, JsonValue]
    """Sizes, with transformers' names."""

    def config(self) -> PretrainedConfig:
        """Make the transformers configuration."""
        from transformers import AutoConfig

        config: PretrainedConfig = AutoConfig.for_model(self.type, **self.settings)
        return config


@cache
def published_models() -> dict[str, PublishedModel]:
    """A mapping from the last part of a hub name to the model, for all published models in the package's list."""
    return packaged_entries(PublishedModel, FOLDER / "planning" / "published_models.toml")


def model_config(name: str, where: str) -> PretrainedConfig:
    """Return the transformers config of a saved or downloaded model, or of a model in ``published_models``.

    >>> model_config("openai-community/gpt2", "start.model").n_layer
    12

    Args:
        name: Folder, GGUF file or hub name.
        where: Name of the setting, for the message.

    Raises:
        ValueError: If the folder does not exist or the model is unknown.
    """
    from transformers import AutoConfig

    known = published_models().get(name.rpartition("/")[2])
    folder = Path(name).expanduser()
    if known is not None and not folder.exists():
        return known.config()
    advice = f" Give a folder, download the model, or use one of {', '.join(published_models())}."
    with unreadable_explained(name, where, advice):
        config: PretrainedConfig = from_pretrained(
            AutoConfig, folder if folder.exists() else name, local_files_only=True
        )
    return config


# -- A tokenizer of a given size that read no text: a model's configuration asks for its size and its marks only.


def stand_in_tokenizer(vocabulary: int) -> PreTrainedTokenizerBase:
    """A tokenizer with ``vocabulary`` tokens, in place of a tokenizer that is trained on a text.

    >>> len(stand_in_tokenizer(300))
    300
    """
    from tokenizers import Tokenizer, models

    marks = [END, PAD, MASK, UNKNOWN]
    words = [*marks, *(f"<{number}>" for number in range(vocabulary - len(marks)))]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=UNKNOWN))
    return for_transformers(tokenizer, UNKNOWN, MASK)
