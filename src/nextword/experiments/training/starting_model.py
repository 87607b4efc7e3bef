"""The task of a training and its initial model: a saved model, or a small model with random weights."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoTokenizer, set_seed

from nextword.conditioning import conditioner_spec, parse_conditioner
from nextword.experiments.tasks import Task
from nextword.experiments.tasks.expand import Expand
from nextword.experiments.tasks.head_counts import (
    HeadSpec,
    counts_file,
    expect_tokenizer,
    wants_counts,
    with_counts,
)
from nextword.experiments.tasks.lm import LanguageModelling
from nextword.experiments.tasks.prompted_pairs import PromptedPairs
from nextword.experiments.tasks.seq2seq import SequenceToSequence
from nextword.experiments.tasks.small_start import SmallStart
from nextword.experiments.tasks.task import architecture_of, saved_model
from nextword.experiments.training.run_folder import RunFolder
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.train_config import SMALL_T5, TrainConfig
from nextword.heads import parse_head
from nextword.model.attach import attach_to_train, load
from nextword.model.configuration import NextWordConfig
from nextword.runtime.corpora.logicnlg import TABLE_PAIRS
from nextword.runtime.corpora.pairs import values_at
from nextword.runtime.corpora.part_names import JSON_LINES, TABLES, is_saved_set, part_files, table_ending, text_files
from nextword.runtime.corpora.row_files import table_rows
from nextword.runtime.pretrained import load_tokenizer
from nextword.runtime.weights import MemoryMappedModel, convert, saved_precision
from nextword.settings.config import validated
from nextword.settings.registry import did_you_mean

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


INSTEAD = "Give the path of a folder, or 'small' for a small model with random weights."


def has_encoder(config: TrainConfig) -> bool:
    """Whether ``config.model`` is an encoder-decoder model. ValueError if this model does not exist."""
    return (
        config.model == SMALL_T5 if config.is_small else architecture_of(saved_configuration(config.model)).has_encoder
    )


def saved_configuration(model: str) -> PretrainedConfig:
    """The configuration of a saved model. ValueError if the model does not exist."""
    return saved_model(model, "model", INSTEAD)[1]


def text_configuration(saved: Any) -> Any:
    """The text model's configuration in ``saved``, the configuration of a nextword or transformers model.

    For an encoder-decoder model it is the whole configuration, not only the decoder's.
    """
    own: Any = saved.text_config if isinstance(saved, NextWordConfig) else saved
    # for an encoder-decoder model transformers would return the decoder's configuration, with other names
    return own if own.is_encoder_decoder else own.get_text_config(decoder=True)


def starting_tokenizer(config: TrainConfig, task: Task, folder: RunFolder) -> PreTrainedTokenizerBase:
    """The saved model's tokenizer. For a small model: the tokenizer of ``task.start``, which is kept in ``folder``."""
    if not config.is_small:
        return load_tokenizer(str(saved_model(config.model, "model", INSTEAD)[0]), "model")
    path = folder.training / "tokenizer"
    if not path.exists():
        half = path.with_name("half-tokenizer")
        shutil.rmtree(half, ignore_errors=True)
        task.start.tokenizer().save_pretrained(half)
        half.replace(path)
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path)
    return found


def starting_model(
    config: TrainConfig,
    settings: TrainingSettings,
    task: Task,
    tokenizer: PreTrainedTokenizerBase,
    folder: RunFolder,
    stored: Any = None,
) -> Any:
    """The model to train, with the requested head. The initial values of new parameters depend only on the seed.

    A nextword model keeps its head if the same head is requested. With ``stored``, a backbone with stored states, no
    weights are loaded and the head is new. With ``settings.fsdp``, weights stay on disk until they are sharded.

    Raises:
        ValueError: If the model does not fit the data, or the head, objective or conditioner does not fit the model.
    """
    expect_tokenizer(config.head, tokenizer, "head")
    with MemoryMappedModel(folder.training) if settings.fsdp else nullcontext():
        set_seed(config.seed)
        if config.is_small:
            assert isinstance(task.start, SmallStart)
            plain: Any = task.architecture.new(task.start.architecture(tokenizer))
            task.check(plain.config, tokenizer)
        else:
            location, saved = saved_model(config.model, "model", INSTEAD)
            task.check(text_configuration(saved), tokenizer)
            plain = _loaded(location, settings, folder) if stored is None else stored
            if stored is None and keeps_its_head(config):
                plain.set_objective(config.objective)
                return plain
        head: HeadSpec = config.head
        if wants_counts(head):
            head = with_counts(head, counts_file(folder.training / "counts.npz", task.data, tokenizer))
        if folder.begun_with_raw_states():
            head = parse_head(head).with_raw_states()
        set_seed(config.seed)
        encoder = None if config.conditioner is None else task.data.encoder()
        followed: dict[str, Any] = {"conditioner": config.conditioner, "encoder": encoder}
        return attach_to_train(plain, head, config.objective, **followed, pretrained=not config.is_small)


def _loaded(location: str | Path, settings: TrainingSettings, folder: RunFolder) -> Any:
    asked = getattr(torch, settings.weights)
    saved = saved_precision(location) if settings.fsdp and isinstance(location, Path) else None
    if saved is None or asked != torch.float32:
        return load(location, dtype=asked)
    model = load(location, dtype=saved)  # memory-mapped; loading in another precision would copy the weights
    convert(model, asked, folder.training)
    return model


def keeps_its_head(config: TrainConfig) -> bool:
    """Whether ``config.model`` already has the head and conditioner that ``config`` requests.

    Raises:
        ValueError: If the model does not exist, or has a conditioner that is not requested.
    """
    saved = saved_configuration(config.model)
    if not isinstance(saved, NextWordConfig) or saved.head is None:
        return False
    conditioner = None if saved.conditioner is None else parse_conditioner(saved.conditioner)
    if config.conditioner is None and conditioner is not None:
        spec = conditioner_spec(conditioner)
        raise ValueError(f"conditioner: the model follows an auxiliary text already; give conditioner={spec}")
    if not parse_head(config.head).unbuilt().is_met_by(parse_head(saved.head).unbuilt()):
        return False
    return config.conditioner is None or parse_conditioner(config.conditioner) == conditioner


# -- The kinds of data of a training. For each kind a task reads the data and measures the model.

TEXT, PAIRS, AUXILIARY = KINDS = ("text", "pairs", "auxiliary")
"""Kinds of data: running text, source-target pairs, and texts that each have an auxiliary text."""

TASKS: dict[tuple[str, bool], type[Task]] = {
    (TEXT, False): LanguageModelling,
    (PAIRS, False): PromptedPairs,
    (PAIRS, True): SequenceToSequence,
    (AUXILIARY, False): Expand,
}
"""The task for each kind of data, and for decoder-only (False) and encoder-decoder models (True)."""

WRITES_NOTHING: dict[str, dict[str, Any]] = {AUXILIARY: {"generation": {"prompts": 0}}}
"""For a kind of data whose task generates texts by default: the settings with which it generates none."""


def data_task(config: TrainConfig, has_encoder: bool) -> Task:
    """Build the task that reads the data of a training.

    Raises:
        ValueError: If the kind of data (``task.kind``) is unknown or does not fit the model or another setting, a
            setting is wrong, or the data cannot be read.
    """
    settings: dict[str, Any] = dict(config.task)
    kind = settings.pop("kind", None) or _kind_of(config, has_encoder)
    if kind not in KINDS:
        near = did_you_mean(str(kind), KINDS)
        raise ValueError(f"task.kind: must be {', '.join(KINDS[:-1])} or {KINDS[-1]} ({kind!r} given).{near}")
    task = TASKS.get((kind, has_encoder))
    if task is None:
        raise ValueError(
            f"task.kind: '{kind}' is for decoder-only models, and {config.model} is an encoder-decoder model; "
            "take 'pairs', or another model"
        )
    if config.conditioner is not None and kind != AUXILIARY:
        raise ValueError(f"conditioner: reads an auxiliary text, and data of the kind '{kind}' has none")
    if "encoder" in settings and kind != AUXILIARY:
        raise ValueError(f"encoder: reads auxiliary texts, and data of the kind '{kind}' has none; leave it out")
    if "generation" in settings and task is not SequenceToSequence:
        raise ValueError("task.generation: a training writes no texts; leave it out, and use 'nextword generate' later")
    return task(validated(task.Config, settings | WRITES_NOTHING.get(kind, {}), "task"))


def _kind_of(config: TrainConfig, has_encoder: bool) -> str:
    if config.conditioner is not None:
        return AUXILIARY
    if has_encoder:
        return PAIRS
    if "text_column" in config.task:
        return TEXT
    data = Path(str(config.task["data"]))
    if TABLE_PAIRS.claims(data):
        return PAIRS
    # the fields of the first row decide if neither method, model nor settings do
    names = {str(config.task.get(f"{side}_field", side)) for side in ("source", "target")}
    first = _first_table(data)
    rows = islice(table_rows(first, "task.data"), 1) if first is not None else ()
    return PAIRS if any(all(values_at(row.content, name) for name in names) for row in rows) else TEXT


def _first_table(path: Path) -> Path | None:
    files = [path]
    if path.is_dir():
        kinds = (part_files(path, "train", "task.data", endings) for endings in (JSON_LINES, TABLES))
        files = text_files(path) if is_saved_set(path) else next(filter(None, kinds), [])
    return next((file for file in files if table_ending(file) is not None and file.is_file()), None)
