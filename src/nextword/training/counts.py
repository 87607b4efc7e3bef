"""How often each token occurs in a task's training data, for heads and measures that go by it.

A head that needs it has a setting ``counts``, the path of a counts file; where a method leaves it out, the comparison
counts its own training data with its own tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nextword.frequency import TokenCounts, tokenizer_fingerprint
from nextword.heads import parse_head
from nextword.tasks.encoding import IGNORED
from nextword.training.method import Method
from nextword.training.stages import Stages

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.tasks import Task

HeadSpec = str | Mapping[str, Any]

COUNTS = "counts.npz"
"""File of the start's folder."""
FIELD = "counts"
"""Setting of a head that names such a file."""
ROWS = 1000
"""Training examples read at a time."""


def wants_counts(head: HeadSpec) -> bool:
    """Whether a head goes by token counts and names no file."""
    config = parse_head(head)
    return FIELD in type(config).model_fields and getattr(config, FIELD) is None


def with_counts(head: HeadSpec, counts: Path | None) -> HeadSpec:
    """The head with ``counts`` as its counts file, where it wants one; any other head as it is."""
    if counts is None or not wants_counts(head):
        return head
    return {**parse_head(head).model_dump(exclude_unset=True), FIELD: str(counts)}


def needed_counts(
    methods: Iterable[Method], task: Task, tokenizer: PreTrainedTokenizerBase, path: Path, stages: Stages
) -> Path | None:
    """The counts file of the training data, made where it is missing; ``None`` where nobody needs it.

    Raises:
        ValueError: A head names counts that were made with another tokenizer.
    """
    methods = list(methods)
    _expect_tokenizer(methods, tokenizer)
    heads = [head for method in methods for head in (method.head, method.trained_head)]
    if task.texts() is None and not any(map(wants_counts, heads)):
        return None
    if not path.exists():
        with stages("start", "counts"):
            path.parent.mkdir(parents=True, exist_ok=True)
            counted(task, tokenizer).save(path)
    return path


def _expect_tokenizer(methods: Iterable[Method], tokenizer: PreTrainedTokenizerBase) -> None:
    """A file that is gone is no fault here: a head that is built already needs it no more."""
    for method in methods:
        for head in (method.head, method.trained_head):
            named = getattr(parse_head(head), FIELD, None)
            if named is not None and Path(named).exists():
                where = f"method '{method.title}': head.{FIELD}"
                try:
                    TokenCounts.load(named, where).expect_tokenizer(tokenizer, where)
                except ValueError as fault:
                    raise ValueError(f"{fault} Or leave '{FIELD}' out: the training text is counted then.") from None


def counted(task: Task, tokenizer: PreTrainedTokenizerBase) -> TokenCounts:
    """Counts of all tokens that training asks for."""
    counts = np.zeros(len(tokenizer), dtype=np.int64)
    for rows in _labels(task.training(tokenizer)):
        labels = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
        found = np.bincount(labels[labels != IGNORED], minlength=len(counts))
        counts = np.pad(counts, (0, len(found) - len(counts))) + found
    return TokenCounts(counts, tokenizer=tokenizer_fingerprint(tokenizer), source="the training text")


def _labels(dataset: Any) -> Iterator[Sequence[Any]]:
    """Labels of some rows at a time; of data that differs between epochs, as it is before the first."""
    if hasattr(dataset, "select_columns"):
        yield from (rows["labels"] for rows in dataset.select_columns("labels").with_format("numpy").iter(ROWS))
        return
    for begin in range(0, len(dataset), ROWS):
        yield [dataset[place]["labels"] for place in range(begin, min(begin + ROWS, len(dataset)))]
