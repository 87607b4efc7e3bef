"""What kind of data a training has: each kind is read, trained on and measured by a task."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from nextword.experiments.finetuning.prompted_pairs import PromptedPairs
from nextword.experiments.finetuning.train_config import TrainConfig
from nextword.experiments.tasks import Task
from nextword.experiments.tasks.expand import Expand
from nextword.experiments.tasks.lm import LanguageModelling
from nextword.experiments.tasks.seq2seq import SequenceToSequence
from nextword.runtime.corpora import is_json_lines, json_lines, part_files
from nextword.runtime.corpora.part_names import JSON_LINES
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

ALREADY_SET = {"data": "data.path", "encoder": "encoder"}
"""Settings of tasks that a training sets elsewhere."""


def data_task(config: TrainConfig, has_encoder: bool) -> Task:
    """The task that reads the data of a training.

    Args:
        config: The training.
        has_encoder: Whether its model is an encoder-decoder one.

    Raises:
        ValueError: No such kind, none for such a model, a wrong setting, or data that cannot be read.
    """
    settings: dict[str, Any] = dict(config.data)
    path, kind = str(settings.pop("path")), settings.pop("kind", None)
    kind = _kind_of(config, path, has_encoder) if kind is None else kind
    if kind not in KINDS:
        near = did_you_mean(str(kind), KINDS)
        raise ValueError(f"data.kind: must be {', '.join(KINDS[:-1])} or {KINDS[-1]} ({kind!r} given).{near}")
    task = TASKS.get((kind, has_encoder))
    if task is None:
        raise ValueError(
            f"data.kind: '{kind}' is for decoder-only models, and {config.model} is an encoder-decoder model; "
            "take 'pairs', or another model"
        )
    if config.conditioner is not None and kind != AUXILIARY:
        raise ValueError(f"conditioner: reads an auxiliary text, and data of the kind '{kind}' has none")
    for name, instead in ALREADY_SET.items():
        if name in settings:
            raise ValueError(f"data.{name}: is set elsewhere; give {instead}=... in its place")
    if "generation" in settings and task is not SequenceToSequence:
        raise ValueError("data.generation: a training writes no texts; leave it out, and use 'nextword generate' later")
    settings |= {"data": path, **WRITES_NOTHING.get(kind, {})}
    if kind == AUXILIARY:
        settings["encoder"] = config.encoder
    elif config.encoder is not None:
        raise ValueError(f"encoder: reads auxiliary texts, and data of the kind '{kind}' has none; leave it out")
    with told_as_data():
        return task(validated(task.Config, settings, "data"))


@contextlib.contextmanager
def told_as_data() -> Iterator[None]:
    """Messages of tasks call their settings ``task.KEY``; those of a training are ``data.KEY``."""
    try:
        yield
    except ValueError as problem:
        text = re.sub(r"\btask\.data\b", "data.path", str(problem))
        text = re.sub(r"\btask\.encoder\b", "encoder", text)
        raise ValueError(re.sub(r"\btask\.(?=\w)", "data.", text)) from problem


def _kind_of(config: TrainConfig, path: str, has_encoder: bool) -> str:
    """What the method and the model ask for; otherwise what the first row of the data has."""
    if config.conditioner is not None:
        return AUXILIARY
    if has_encoder:
        return PAIRS
    names = {str(config.data.get(f"{side}_field", side)) for side in ("source", "target")}
    return PAIRS if names <= _fields(Path(path)) else TEXT


def _fields(path: Path) -> set[str]:
    """Fields of the first JSON line; none where there is no such file."""
    files = part_files(path, "train", "data.path", JSON_LINES) if path.is_dir() else [path]
    first = next((file for file in files if is_json_lines(file) and file.is_file()), None)
    lines = islice(json_lines(first, "data.path", skip_empty=True), 1) if first is not None else iter(())
    return {name for line in lines for name in line.content}
