"""Texts whose states are stored: a head can be scored and calibrated on them without running the backbone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nextword.experiments.tasks import Task
from nextword.experiments.tasks.window_likelihood import WindowTask
from nextword.experiments.training.collator import TaskRows
from nextword.experiments.training.starting_model import data_task, has_encoder
from nextword.experiments.training.train_config import TrainConfig, configured
from nextword.inference.scoring.calibrate import HeldRows
from nextword.inference.scoring.example_encoding import TokenizedExample, Tokens
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.text_tokens import bytes_before
from nextword.model.stored_states.state_files import StoredStates, TokenRow
from nextword.runtime.pretrained import load_tokenizer


def test_text(states: str | Path) -> tuple[GivenTexts, dict[str, int]]:
    """The test text with states in the folder ``states``, and a mapping with the ``window`` and ``stride`` in tokens.

    Raises:
        ValueError: If the states are unfinished or of an encoder-decoder model, their task has no running text, or the
            data has changed.
    """
    config, task = _task_of(states)
    text = task.data.test_text()
    if not isinstance(task, WindowTask) or text is None:
        raise ValueError(
            f"states: must be those of running text ('{states}' has those of task '{task.name}'); score the saved "
            "model with 'nextword score MODEL DATA'"
        )
    tokenizer: Any = load_tokenizer(config.model, "model")
    _expect_stored(states, [TokenRow(tuple(ids)) for ids in task.measures.read_windows(tokenizer)])
    stream, settings = task.measures.test_stream(tokenizer), task.config
    ends = np.searchsorted(bytes_before(text), np.cumsum(stream.text_bytes))
    tokens = Tokens(stream.target, np.stack([np.concatenate([[0], ends[:-1]]), ends], 1))
    example = TokenizedExample(text[: int(ends[-1])], id="test", tokens=tokens)
    return GivenTexts.of([example], [str(states)]), {"window": settings.window, "stride": settings.stride}


def validation_rows(states: str | Path) -> HeldRows:
    """The validation rows whose states are in the folder ``states``.

    Raises:
        ValueError: If the states are unfinished or of an encoder-decoder model, there are no validation rows, or the
            data has changed.
    """
    config, task = _task_of(states)
    rows = TaskRows(task.data, load_tokenizer(config.model, "model")).validation
    ids, labels = ([list(row) for row in rows[name]] for name in ("input_ids", "labels"))
    _expect_stored(states, [TokenRow(tuple(row)) for row in ids])
    return HeldRows(ids, labels, [f"validation rows of {states}"])


def _task_of(states: str | Path) -> tuple[TrainConfig, Task]:
    config = configured({"states": str(states), "head": "softmax"})
    if has_encoder(config):
        raise ValueError(
            f"states: must be those of a decoder-only model ('{states}' has those of '{config.model}'); calibrate with "
            "'nextword attach --held TEXT', and score with 'nextword score MODEL DATA'"
        )
    return config, data_task(config, False)


def _expect_stored(states: str | Path, rows: list[TokenRow]) -> None:
    if not StoredStates(states).has_all(rows):
        raise ValueError(
            f"states: must have all rows of the data that they were computed from ('{states}' lacks some, so the data "
            "have changed); build another store"
        )
