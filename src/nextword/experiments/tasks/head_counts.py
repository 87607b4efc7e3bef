"""Token counts of the training data, for heads that need them.

Such a head has a setting ``counts``, the path of a counts file. Without a path, the tokens of the training data are
counted with the model's tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nextword.experiments.tasks.task import Data
from nextword.functional.frequency import TokenCounts, tokenizer_fingerprint
from nextword.functional.padding import IGNORED_LABEL
from nextword.heads import parse_head

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HeadSpec = str | Mapping[str, Any]

FIELD = "counts"
"""Setting of a head that names a counts file."""
ROWS = 1000
"""Number of training examples read at a time."""


def wants_counts(head: HeadSpec) -> bool:
    """Whether a head needs token counts and its settings name no counts file."""
    config = parse_head(head)
    return FIELD in type(config).model_fields and getattr(config, FIELD) is None


def with_counts(head: HeadSpec, counts: Path | None) -> HeadSpec:
    """The head with ``counts`` as its counts file, if it needs counts and names no file; otherwise unchanged."""
    if counts is None or not wants_counts(head):
        return head
    return {**parse_head(head).model_dump(exclude_unset=True), FIELD: str(counts)}


def expect_tokenizer(head: HeadSpec, tokenizer: PreTrainedTokenizerBase, where: str) -> None:
    """Raise ValueError if a head names counts that were made with another tokenizer.

    A missing file is not an error here, because a head that is already built does not need it.
    """
    named = getattr(parse_head(head), FIELD, None)
    if named is not None and Path(named).exists():
        setting = f"{where}.{FIELD}"
        try:
            TokenCounts.load(named, setting).expect_tokenizer(tokenizer, setting)
        except ValueError as fault:
            raise ValueError(f"{fault} Or leave out '{FIELD}', to count the training text.") from None


def counts_file(path: Path, data: Data, tokenizer: PreTrainedTokenizerBase) -> Path:
    """The file ``path`` with the counts of the training data, created if missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        training_counts(data, tokenizer).save(path)
    return path


def training_counts(data: Data, tokenizer: PreTrainedTokenizerBase) -> TokenCounts:
    """How often each token is a label in the training rows."""
    counts = np.zeros(len(tokenizer), dtype=np.int64)
    for rows in _labels(data.training(tokenizer)):
        labels = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
        more = np.bincount(labels[labels != IGNORED_LABEL], minlength=len(counts))
        counts = np.pad(counts, (0, len(more) - len(counts))) + more
    return TokenCounts(counts, tokenizer=tokenizer_fingerprint(tokenizer), source="the training text")


def _labels(dataset: Any) -> Iterator[Sequence[Any]]:
    # a few rows at a time; if the rows differ between epochs, those of the first epoch
    if hasattr(dataset, "select_columns"):
        yield from (rows["labels"] for rows in dataset.select_columns("labels").with_format("numpy").iter(ROWS))
        return
    for begin in range(0, len(dataset), ROWS):
        yield [dataset[number]["labels"] for number in range(begin, min(begin + ROWS, len(dataset)))]
