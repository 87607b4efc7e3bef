"""How often each token occurs in a task's training data, for heads and measures that go by it, and in its test data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nextword.evaluation.metrics.metric import parse_metric
from nextword.evaluation.metrics.unigram_kl import TEST
from nextword.experiments.comparison.method import Method
from nextword.experiments.comparison.progress import StageReporter
from nextword.experiments.tasks.parts.head_counts import expect_tokenizer, training_counts, wants_counts
from nextword.functional.frequency import TokenCounts, tokenizer_fingerprint
from nextword.inference.scoring.text_tokens import token_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.experiments.tasks import Task, Texts

COUNTS = "counts.npz"
"""File of the start's folder."""
TEST_COUNTS = "test-counts.npz"
"""The same of the test data."""
AGAINST = "against"
"""Setting of a metric that names what texts are compared with; ``test`` stands for the test data."""


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
            training_counts(task.data, tokenizer).save(path)
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
    for method in methods:
        for head in (method.head, method.trained_head):
            expect_tokenizer(head, tokenizer, f"method '{method.title}': head")
