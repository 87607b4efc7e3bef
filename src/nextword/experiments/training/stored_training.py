"""Train a head from stored states: build the store of a task's rows, check what can be trained, save the model.

The backbone is not loaded: its states are read from the store, and its weights are copied into the model's folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nextword.experiments.tasks import Task
from nextword.experiments.tasks.window_likelihood import WindowTask
from nextword.experiments.training.collator import TaskRows
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.starting_model import data_task, has_encoder
from nextword.experiments.training.train_config import TrainConfig
from nextword.inference.states import StatesSettings, build_states
from nextword.model.attach import attach, load
from nextword.model.stored_states.finished_model import copied_backbone
from nextword.model.stored_states.state_files import StatesManifest, TokenRow
from nextword.model.stored_states.stored_backbone import StoredBackbone
from nextword.runtime.pretrained import load_tokenizer
from nextword.runtime.resumable import differences

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


def store_task_states(
    config: TrainConfig,
    out: str | Path,
    settings: StatesSettings | None = None,
    command: str = "nextword states build",
    progress: Callable[[int, int], None] | None = None,
) -> StatesManifest:
    """Store the states of all rows that a training of ``config`` reads: training, validation and test.

    Args:
        config: Model and task; its head is ignored.
        out: Folder for the store.
        settings: Settings of the build; None: defaults.
        command: Command line, for the record.
        progress: Function called with the number of computed tokens and their total.

    Raises:
        ValueError: An encoder-decoder model, rows that are others in each epoch, data or a model that cannot be read,
            or what ``build_states`` refuses.
    """
    if config.is_small or has_encoder(config):
        raise ValueError(f"model: must be a saved decoder-only model ('{config.model}' given)")
    task = data_task(config, False)
    tokenizer = load_tokenizer(config.model, "model")
    rows = list(read_rows(task, tokenizer, TaskRows(task.data, tokenizer)))
    return build_states(config.model, rows, out, settings, task=config.task, command=command, progress=progress)


def read_rows(task: Task, tokenizer: PreTrainedTokenizerBase, rows: TaskRows) -> Iterator[TokenRow]:
    """Rows of a decoder-only model: training rows, validation rows, and windows of the test split.

    Raises:
        ValueError: If the rows differ between epochs.
    """
    if hasattr(rows.training, "set_epoch"):
        raise ValueError(
            f"task: must have the same rows in each epoch ('{task.name}' has others); train through the model itself"
        )
    parts = [rows.training]
    with contextlib.suppress(ValueError):  # too short for a row: nothing reads it
        parts.append(rows.validation)
    for part in parts:
        yield from (TokenRow(tuple(ids)) for ids in part["input_ids"])
    if isinstance(task, WindowTask):
        yield from (TokenRow(tuple(ids)) for ids in task.measures.read_windows(tokenizer))


def expect_trainable(config: TrainConfig, settings: TrainingSettings, model: StoredBackbone) -> None:
    """Raise ValueError if a training would change the states or needs something that is not stored."""
    changed = {
        "training.trains": settings.trains != "head" and "the head alone can be trained: give training.trains=head",
        "training.lora": settings.lora is not None and "adapters change the states: leave it out",
        "training.fsdp": settings.fsdp and "the backbone is not there to be spread: leave it out",
        "training.shard_vocabulary": settings.shard_vocabulary and "not with stored states: leave it out",
        "conditioner": config.conditioner is not None and "it changes the states: train through the model itself",
        "states": _dropout(model),
    }
    for name, said in changed.items():
        if said:
            raise ValueError(f"{name}: must fit stored states ({said})")


def _dropout(model: StoredBackbone) -> str:
    given: dict[str, Any] = model.config.to_dict()
    rates = {
        name: value
        for name, value in given.items()
        if ("dropout" in name or name.endswith("pdrop")) and isinstance(value, float) and value > 0
    }
    if not rates:
        return ""
    shown = ", ".join(f"{name} {value}" for name, value in sorted(rates.items()))
    return (
        f"the model trains with dropout: {shown}, which stored states have not; set these to 0 in the config.json of "
        "the store if that is meant"
    )


def stored_backbone(config: TrainConfig, settings: TrainingSettings) -> StoredBackbone | None:
    """The backbone of ``config.states``, None if not given; ValueError if it cannot be used for this training."""
    if config.states is None:
        return None
    model = StoredBackbone.open(config.states, getattr(torch, settings.weights))
    expect_trainable(config, settings, model)
    return model


def expect_stored_rows(
    model: NextWordModel, task: Task, tokenizer: PreTrainedTokenizerBase, rows: TaskRows, config: TrainConfig
) -> None:
    """Raise ValueError, before training, if a row that the training reads is not stored."""
    if not isinstance(model.backbone, StoredBackbone):
        return
    store = model.backbone.store
    if all(store.of(row) is not None for row in read_rows(task, tokenizer, rows)):
        return
    different = differences(store.manifest.origin.task, config.task)
    raise ValueError(
        f"states: must have all rows that the training reads ({'; '.join(different) or 'the data have changed'}); take "
        "the settings and data of the store, or build another store"
    )


def measured(model: NextWordModel, task: Task, source: str) -> NextWordModel:
    """The model for evaluation: the model itself if all states are stored, else the head on the full model."""
    is_stored = isinstance(model.backbone, StoredBackbone)
    return ordinary(model, source) if is_stored and not isinstance(task, WindowTask) else model


def writer_of(model: NextWordModel, source: str) -> Callable[[Path], None]:
    """The function that saves a trained model as an ordinary one; ``source`` is the model whose states were stored."""
    return partial(_write, model, source) if isinstance(model.backbone, StoredBackbone) else model.save_pretrained


def _write(model: NextWordModel, source: str, folder: Path) -> None:
    if not copied_backbone(model, source, folder):
        ordinary(model, source).save_pretrained(folder)


def ordinary(model: NextWordModel, source: str) -> NextWordModel:
    """Load the full model and attach the same head."""
    loaded: Any = load(source, dtype=model.dtype)
    whole = attach(loaded, model.next_word_head.config, model.objective.config)
    whole.next_word_head.load_state_dict(model.next_word_head.state_dict())
    return whole
