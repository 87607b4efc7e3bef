"""Train a head from stored states: store the states of a task's rows, check the settings, save the trained model.

The backbone is not loaded: its states are read from the store, and its weights are copied into the model's folder.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nextword.conditioning import conditioner_spec, parse_conditioner
from nextword.conditioning import registry as conditioners
from nextword.experiments.tasks import Task
from nextword.experiments.tasks.window_likelihood import WindowTask
from nextword.experiments.training.collator import TaskRows
from nextword.experiments.training.method_settings import MethodSettings
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.starting_model import (
    data_task,
    has_encoder,
    saved_configuration,
    text_configuration,
)
from nextword.experiments.training.train_config import TrainConfig
from nextword.inference.states import StatesSettings, build_states
from nextword.model.attach import load, with_head
from nextword.model.conditioned_model import untie
from nextword.model.stored_states.finished_model import copied_backbone
from nextword.model.stored_states.state_files import StatesManifest, TokenRow
from nextword.model.stored_states.stored_backbone import StoredBackbone, decoder_inputs_of
from nextword.objectives import parse_objective
from nextword.runtime import processes
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
    """Store the states of all rows that a training with ``config`` reads (see ``read_rows``).

    Args:
        config: Model and task. Its head is ignored.
        out: Folder for the store.
        settings: Settings of the build; None: defaults.
        command: Command line that repeats the call, for the record.
        progress: Function that receives the number of computed tokens and the number of all tokens.

    Raises:
        ValueError: If the model is a new small one, rows differ between epochs, the data or the model cannot be read,
            or ``build_states`` cannot store the states.
    """
    if config.is_small:
        raise ValueError(f"model: must be a saved model ('{config.model}' given)")
    task = data_task(config, has_encoder(config))
    tokenizer = load_tokenizer(config.model, "model")
    of_model = text_configuration(saved_configuration(config.model))
    task.check(of_model, tokenizer)
    decoder_inputs = decoder_inputs_of(of_model) if of_model.is_encoder_decoder else None
    made = TaskRows(task.data, tokenizer)
    rows = list(read_rows(task, tokenizer, made, decoder_inputs))
    return build_states(
        config.model,
        rows,
        out,
        settings,
        task=config.task,
        text_rows=text_rows(task, made),
        command=command,
        progress=progress,
    )


def text_rows(task: Task, rows: TaskRows) -> int:
    """Number of rows, from the first, that form a gapless text: all training rows for running text, otherwise 0."""
    return len(rows.training) if isinstance(task, WindowTask) else 0


def read_rows(
    task: Task,
    tokenizer: PreTrainedTokenizerBase,
    rows: TaskRows,
    decoder_inputs: Callable[[Tensor], Tensor] | None = None,
) -> Iterator[TokenRow]:
    """Yields all rows that a model reads: training and validation rows, and for running text, the windows to score.

    A validation text that is too short for a row is left out. For an encoder-decoder model, ``decoder_inputs`` computes
    the decoder's inputs from labels.

    Raises:
        ValueError: If the rows differ between epochs.
    """
    if hasattr(rows.training, "set_epoch"):
        raise ValueError(
            f"task: must have the same rows in each epoch ('{task.name}' has others); give task.same_slices=true where "
            "the task has it, or train through the model itself"
        )
    parts = [rows.training]
    with contextlib.suppress(ValueError):  # the validation text is shorter than one row, so no model reads it
        parts.append(rows.validation)
    for part in parts:
        if decoder_inputs is None:
            yield from (TokenRow(tuple(ids)) for ids in _column(part, "input_ids"))
            continue
        for source, labels in zip(_column(part, "input_ids"), _column(part, "labels"), strict=True):
            yield TokenRow(tuple(decoder_inputs(torch.tensor([labels]))[0].tolist()), tuple(source))
    if isinstance(task, WindowTask):
        yield from (TokenRow(tuple(ids)) for ids in task.measures.read_windows(tokenizer))


def _column(part: Any, name: str) -> Iterable[Sequence[int]]:
    return part[name] if hasattr(part, "select_columns") else (part[number][name] for number in range(len(part)))


def expect_trainable(config: MethodSettings, settings: TrainingSettings, model: StoredBackbone | None = None) -> None:
    """Raise ValueError if a training with stored states would change them or needs something that is not stored.

    If ``model`` is given, it must also train without dropout.
    """
    changed = {
        "conditioner": _conditioner(config),
        "objective": parse_objective(config.objective).seq is not None
        and "+seq trains on texts that the model writes itself, which are not stored: leave it out",
        "training.trains": _trains(config, settings),
        "training.lora": settings.lora is not None and "adapters change the states: leave it out",
        "training.fsdp": settings.fsdp and "the backbone is not there to be spread: leave it out",
        "training.shard_vocabulary": settings.shard_vocabulary and "not with stored states: leave it out",
        "torchrun": processes.count() > 1 and "one process reads them: start nextword without a launcher",
        "states": model is not None and _dropout(model),
    }
    for name, said in changed.items():
        if said:
            raise ValueError(f"{name}: must fit stored states ({said})")


def _conditioner(config: MethodSettings) -> str:
    if config.conditioner is None:
        return ""
    asked = parse_conditioner(config.conditioner)
    if conditioners.get(asked.conditioner).changes_states:
        return f"'{conditioner_spec(asked)}' changes the states: train through the model itself, or take lmh or dau"
    if asked.trains in ("decoder", "all"):
        return f"trains={asked.trains} changes the states: leave it out"
    return ""


def _trains(config: MethodSettings, settings: TrainingSettings) -> str:
    if config.conditioner is not None:  # its setting ``trains`` chooses the weights, and here these are not in layers
        return "" if settings.trains == "all" else "the conditioner would not be trained: give training.trains=all"
    return "" if settings.trains == "head" else "the head alone can be trained: give training.trains=head"


_OF_CLASSIFIERS = ("classif", "summary_")
"""Prefixes of the names of dropout rates that language models do not use (in BART and GPT-2)."""


def _dropout(model: StoredBackbone) -> str:
    shown = dropout_rates(model.config)
    return shown and (
        f"the model trains with dropout: {shown}, but stored states are computed without; to train without dropout, "
        "set these to 0 in the config.json of the store"
    )


def dropout_rates(config: Any) -> str:
    """The dropout rates above 0 in a model's configuration, with their names, as text. Empty if there are none."""
    given: dict[str, Any] = config.to_dict()
    rates = {
        name: value
        for name, value in given.items()
        if ("dropout" in name or name.endswith(("pdrop", "layerdrop"))) and not name.startswith(_OF_CLASSIFIERS)
        if isinstance(value, float) and value > 0
    }
    return ", ".join(f"{name} {value}" for name, value in sorted(rates.items()))


def stored_backbone(config: TrainConfig, settings: TrainingSettings) -> StoredBackbone | None:
    """The backbone whose states are in the folder ``config.states``; None if no folder is given.

    Raises:
        ValueError: If a training with these settings cannot use stored states.
    """
    if config.states is None:
        return None
    model = StoredBackbone.open(config.states, getattr(torch, settings.weights))
    expect_trainable(config, settings, model)
    return model


def expect_stored_rows(
    model: NextWordModel, task: Task, tokenizer: PreTrainedTokenizerBase, rows: TaskRows, config: TrainConfig
) -> None:
    """Raise ValueError, before training, if the states of a row that the training reads are not stored."""
    if not isinstance(model.backbone, StoredBackbone):
        return
    shifted = model.backbone.prepare_decoder_input_ids_from_labels if model.config.is_encoder_decoder else None
    if model.backbone.store.has_all(read_rows(task, tokenizer, rows, shifted)):
        return
    different = differences(model.backbone.store.manifest.origin.task, config.task)
    raise ValueError(
        f"states: must have all rows that the training reads ({'; '.join(different) or 'the data have changed'}); take "
        "the settings and data of the store, or build another store"
    )


def measured(model: NextWordModel, task: Task, source: str) -> NextWordModel:
    """The model to evaluate on the test split: ``model``, or the full model ``source`` with the head of ``model``.

    The full model is needed if ``model`` has stored states and the task does not measure running text, because the
    states of the test split are stored only for running text.
    """
    is_stored = isinstance(model.backbone, StoredBackbone)
    return ordinary(model, source) if is_stored and not isinstance(task, WindowTask) else model


def writer_of(model: NextWordModel, source: str) -> Callable[[Path], None]:
    """The function that saves ``model`` in a folder. A model with stored states gets its weights from ``source``."""
    is_stored = isinstance(model.backbone, StoredBackbone)
    return partial(write_ordinary, model, source) if is_stored else model.save_pretrained


def write_ordinary(model: NextWordModel, source: str, folder: Path, shared: Path | None = None) -> None:
    """Save ``model``, which has stored states, in ``folder`` as an ordinary model, with the weights of ``source``.

    The weight files of ``source`` are copied. With ``shared``, a folder of such copies, they are links to these. If
    ``copied_backbone`` cannot copy the files, ``source`` is loaded.
    """
    if not copied_backbone(model, source, folder, shared):
        ordinary(model, source).save_pretrained(folder)


def ordinary(model: NextWordModel, source: str) -> NextWordModel:
    """Load the full model ``source``, and attach the head and conditioner of ``model``."""
    backbone, conditioner = load(source, dtype=model.dtype).backbone, model.conditioner
    if conditioner is not None and conditioner.config.unties:
        untie(backbone)
    config: Any = copy.deepcopy(model.config)
    config.text_config, config.head = backbone.config, model.next_word_head.config.model_dump()
    config.backbone_class = None if type(model).knows(backbone.config) else type(backbone).__name__
    whole: Any = with_head(backbone, config, model.next_word_head.state_dict(), source, model.auxiliary_encoder)
    if conditioner is not None:
        whole.conditioner.load_state_dict(conditioner.state_dict())
        whole.get_output_embeddings().load_state_dict(model.get_output_embeddings().state_dict())
    return whole
