"""What kind of data a training has: each kind is read, trained on and measured by a task."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from nextword.experiments.tasks import Task
from nextword.experiments.tasks.expand import Expand
from nextword.experiments.tasks.lm import LanguageModelling
from nextword.experiments.tasks.prompted_pairs import PromptedPairs
from nextword.experiments.tasks.seq2seq import SequenceToSequence
from nextword.experiments.training.train_config import TrainConfig
from nextword.runtime.corpora.part_names import JSON_LINES, TABLES, is_saved_set, part_files, table_ending, text_files
from nextword.runtime.corpora.row_files import table_rows
from nextword.settings.config import validated
from nextword.settings.registry import did_you_mean

TEXT, PAIRS, AUXILIARY = KINDS = ("text", "pairs", "auxiliary")
"""Running text; a source and a target; a text, and what an encoder reads beside it."""

TASKS: dict[tuple[str, bool], type[Task]] = {
    (TEXT, False): LanguageModelling,
    (PAIRS, False): PromptedPairs,
    (PAIRS, True): SequenceToSequence,
    (AUXILIARY, False): Expand,
}
"""By the kind, and whether the model is an encoder-decoder one."""

WRITES_NOTHING: dict[str, dict[str, Any]] = {AUXILIARY: {"generation": {"prompts": 0}}}
"""Settings of a task that writes texts otherwise: a training writes none."""


def data_task(config: TrainConfig, has_encoder: bool) -> Task:
    """The task that reads the data of a training, whose model has an encoder or not.

    Raises:
        ValueError: No such kind, none for such a model, a wrong setting, or data that cannot be read.
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
    # neither method nor model nor settings say it: what the first row of the data has
    names = {str(config.task.get(f"{side}_field", side)) for side in ("source", "target")}
    first = _first_table(Path(str(config.task["data"])))
    rows = islice(table_rows(first, "task.data"), 1) if first is not None else ()
    return PAIRS if any(names <= row.content.keys() for row in rows) else TEXT


def _first_table(path: Path) -> Path | None:
    files = [path]
    if path.is_dir():
        kinds = (part_files(path, "train", "task.data", endings) for endings in (JSON_LINES, TABLES))
        files = text_files(path) if is_saved_set(path) else next(filter(None, kinds), [])
    return next((file for file in files if table_ending(file) is not None and file.is_file()), None)
