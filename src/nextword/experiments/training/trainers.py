"""Trainers for heads whose memory reaches beyond their window: to rows of earlier steps, or to similar rows (TRIME)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from nextword.experiments.training.learning_rates import GroupedTrainer
from nextword.model.head_cache.kv_cache import LongMemory
from nextword.runtime import optional_libraries as extras
from nextword.runtime import processes


class RememberingTrainer(GroupedTrainer):
    """Base class of trainers for a head with memory beyond its window, in one process.

    Raises:
        ValueError: If the head has no memory beyond its window, or there are several processes.
    """

    setting: ClassVar[str]
    """Name of the setting that selects this trainer."""

    def __init__(self, rates: Mapping[str, float], *args: Any, **kwargs: Any) -> None:
        super().__init__(rates, *args, **kwargs)
        ours: Any = self.model
        head = getattr(ours, "next_word_head", None)
        if head is None or head.looks_back is None:
            raise ValueError(
                f"training.{self.setting}: must be used with a head that has memory beyond its window (it has "
                f"none); give one such as cache:long=12288"
            )
        if processes.count() > 1:
            raise ValueError(
                f"training.{self.setting}: must be used in one process, which chooses the order of the rows "
                f"({processes.count()} given); start it without torchrun"
            )


# -- TRIME's long-term memory in training.


MEMORY = "memory.pt"
"""File of a checkpoint with the head's memory."""


def consecutive_rows(count: int, seed: int) -> list[int]:
    """All indices below ``count`` in order, from an index that depends on ``seed``; 0 follows the last index.

    >>> consecutive_rows(5, seed=1)
    [1, 2, 3, 4, 0]
    """
    first = random.Random(seed).randrange(count)
    return [(first + number) % count for number in range(count)]


class ConsecutiveTrainer(RememberingTrainer):
    """Trainer with consecutive rows within and across batches. At each row, the head also reads the earlier rows.

    Gradients reach all rows of a batch (TRIME, Zhong et al. 2022, with consecutive segments in one batch). The memory
    of earlier batches has no gradient. A start token begins a document, and positions of a document do not read earlier
    documents. Validation losses are computed for each row separately.
    """

    setting = "consecutive"

    def __init__(self, rates: Mapping[str, float], *args: Any, **kwargs: Any) -> None:
        super().__init__(rates, *args, **kwargs)
        ours: Any = self.model
        config = ours.config.get_text_config(decoder=True)
        self._memory = LongMemory(config.eos_token_id if config.bos_token_id is None else config.bos_token_id)

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        return consecutive_rows(len(rows), self.args.seed)  # a DataLoader accepts a list as its sampler

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Compute the loss. In training, the head also reads the rows of earlier batches."""
        further = {"memory": self._memory} if model.training else {}
        return super().compute_loss(model, {**inputs, **further}, *args, **kwargs)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        torch.save(self._memory.kept(), Path(output_dir) / MEMORY)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._memory.keep(torch.load(Path(checkpoint) / MEMORY, map_location=self.args.device))


# -- TRIME's external memory in training: the rows of a batch are similar, and each reads the rows before it.


class Bm25BatchTrainer(RememberingTrainer):
    """Trainer whose batches have rows similar by BM25. At each row, the head also reads the earlier rows of the batch.

    This imitates retrieval from a datastore (TRIME, Zhong et al. 2022, with batches by BM25). Gradients reach all rows
    of a batch. The head does not remember other batches. Validation losses are computed for each row separately.
    """

    setting = "alike"

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        ids = [rows[number]["input_ids"] for number in range(len(rows))]
        return similar_rows(ids, self.args.train_batch_size, self.args.seed)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Compute the loss. In training, the head also reads the earlier rows of this batch."""
        further = {"memory": LongMemory()} if model.training else {}
        return super().compute_loss(model, {**inputs, **further}, *args, **kwargs)


# -- An order of training rows in which the rows of each batch are similar by BM25.

NEIGHBOURS = 20
"""Number of nearest neighbours that may follow each row."""


def similar_rows(rows: Sequence[Sequence[int]], batch_size: int, seed: int) -> list[int]:
    """Indices of all rows, in an order in which the ``batch_size`` rows of each batch are similar by BM25.

    The rows are first put into a chain: each row is followed by the most similar unused row among its ``NEIGHBOURS``
    nearest neighbours, or if all of these are used, by a random row. The chain is then cut into batches, whose
    order is shuffled; an incomplete batch comes last.

    Raises:
        ValueError: If the package bm25s is missing.

    Examples:
        >>> similar_rows([[1, 2, 3], [7, 8, 9], [2, 3, 4], [8, 9, 7]], batch_size=2, seed=0)  # doctest: +SKIP
        [1, 3, 0, 2]
    """
    nearest = _nearest(rows)
    draw = random.Random(seed)
    rest = list(range(len(rows)))
    draw.shuffle(rest)
    taken: set[int] = set()
    chain: list[int] = []
    while len(chain) < len(rows):
        row = next((one for one in nearest[chain[-1]] if one not in taken), None) if chain else None
        while row is None or row in taken:
            row = rest.pop()
        chain.append(row)
        taken.add(row)
    batches = [chain[begin : begin + batch_size] for begin in range(0, len(chain), batch_size)]
    short = [batches.pop()] if len(batches[-1]) < batch_size else []
    draw.shuffle(batches)
    return [row for batch in [*batches, *short] for row in batch]


def _nearest(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    if extras.missing(["bm25s"]):
        raise ValueError(f"training.alike: needs the package bm25s, not installed here ({extras.install('bm25')})")
    import bm25s

    words = [[str(token) for token in row] for row in rows]
    index = bm25s.BM25()
    index.index(words, show_progress=False)
    found = index.retrieve(words, k=min(NEIGHBOURS + 1, len(rows)), show_progress=False).documents
    return [[int(one) for one in near if one != number] for number, near in enumerate(found)]
