"""How often each token occurs in a task's training data, for heads and measures that go by it, and in its test data.

A head that needs it has a setting ``counts``, the path of a counts file; where a method leaves it out, the comparison
counts its own training data with its own tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nextword.comparison.method import Method
from nextword.comparison.progress import StageReporter
from nextword.frequency import TokenCounts, tokenizer_fingerprint
from nextword.functional.padding import IGNORED_LABEL
from nextword.heads import parse_head
from nextword.metrics.metric import parse_metric
from nextword.metrics.unigram_kl import TEST
from nextword.scoring.text_tokens import token_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.tasks import Task, Texts

HeadSpec = str | Mapping[str, Any]

COUNTS = "counts.npz"
"""File of the start's folder."""
TEST_COUNTS = "test-counts.npz"
"""The same of the test data."""
FIELD = "counts"
"""Setting of a head that names such a file."""
AGAINST = "against"
"""Setting of a metric that names what texts are compared with; ``test`` stands for the test data."""
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
    methods: Iterable[Method], task: Task, tokenizer: PreTrainedTokenizerBase, path: Path, stages: StageReporter
) -> Path | None:
    """The counts file of the training data, made where it is missing; ``None`` where nobody needs it.

    Raises:
        ValueError: A head names counts that were made with another tokenizer.
    """
    methods = list(methods)
    _expect_tokenizer(methods, tokenizer)
    heads = [head for method in methods for head in (method.head, method.trained_head)]
    if task.writes is None and not any(map(wants_counts, heads)):
        return None
    if not path.exists():
        with stages("start", "counts"):
            path.parent.mkdir(parents=True, exist_ok=True)
            training_counts(task, tokenizer).save(path)
    return path


def asks_for_test_data(metric: str | Mapping[str, Any]) -> bool:
    """Whether a metric compares with the test data of the task."""
    return getattr(parse_metric(metric), AGAINST, None) == TEST


def needed_test_counts(
    task: Task, tokenizer: PreTrainedTokenizerBase, path: Path, stages: StageReporter
) -> Path | None:
    """The counts file of the test data, made where it is missing; ``None`` where no metric asks for it."""
    text = task.data.test_text()
    if task.writes is None or text is None or not any(map(asks_for_test_data, task.writes.texts.metrics)):
        return None
    if not path.exists():
        with stages("start", "counts of the test data"):
            counts = np.bincount(token_ids(tokenizer, text), minlength=len(tokenizer))
            TokenCounts(counts, tokenizer=tokenizer_fingerprint(tokenizer), source="the test text").save(path)
    return path


def expect_test_data(task: Task, texts: Texts) -> None:
    """Raises ValueError where a metric compares with test data as one text, and the task has none."""
    asking = [metric for metric in texts.metrics if asks_for_test_data(metric)]
    if asking and task.data.test_text() is None:
        name = parse_metric(asking[0]).metric
        raise ValueError(
            f"{name}.{AGAINST}: task '{task.name}' has no test text to compare with as a whole; take the references "
            f"('{name}'), or name a file"
        )


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


def training_counts(task: Task, tokenizer: PreTrainedTokenizerBase) -> TokenCounts:
    """Counts of all tokens that training asks for."""
    counts = np.zeros(len(tokenizer), dtype=np.int64)
    for rows in _labels(task.data.training(tokenizer)):
        labels = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
        more = np.bincount(labels[labels != IGNORED_LABEL], minlength=len(counts))
        counts = np.pad(counts, (0, len(more) - len(counts))) + more
    return TokenCounts(counts, tokenizer=tokenizer_fingerprint(tokenizer), source="the training text")


def _labels(dataset: Any) -> Iterator[Sequence[Any]]:
    """Labels of some rows at a time; of data that differs between epochs, as it is before the first."""
    if hasattr(dataset, "select_columns"):
        yield from (rows["labels"] for rows in dataset.select_columns("labels").with_format("numpy").iter(ROWS))
        return
    for begin in range(0, len(dataset), ROWS):
        yield [dataset[place]["labels"] for place in range(begin, min(begin + ROWS, len(dataset)))]
