"""TRIME's long-term memory in training: rows in the order of the text, and a memory that goes from step to step."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Sampler

from nextword.experiments.training.segments.remembering_trainer import RememberingTrainer
from nextword.model.head_cache.long_memory import LongMemory

MEMORY = "memory.pt"
"""File of a checkpoint with what is remembered."""


class ConsecutiveRows(Sampler[int]):
    """All rows in order, round and round, from one that the seed chooses.

    >>> list(ConsecutiveRows(5, seed=1))
    [1, 2, 3, 4, 0]

    Args:
        count: Rows of the data.
        seed: Chooses the first.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._first = count, random.Random(seed).randrange(count)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return ((self._first + number) % self._count for number in range(self._count))


class ConsecutiveTrainer(RememberingTrainer):
    """The rows of a batch follow one another in the text, and batches do; a head that looks back sees them all.

    Gradients go back through the rows of a batch (TRIME, Zhong et al. 2022, with consecutive segments in one batch);
    what is remembered of earlier batches is as it was made, and has none. A start token begins a document, which sees
    nothing of the one before. Validation losses are those of each row by itself.
    """

    setting = "consecutive"

    def __init__(self, rates: Mapping[str, float], *args: Any, **kwargs: Any) -> None:
        super().__init__(rates, *args, **kwargs)
        ours: Any = self.model
        config = ours.config.get_text_config(decoder=True)
        self._memory = LongMemory(config.eos_token_id if config.bos_token_id is None else config.bos_token_id)

    def _get_train_sampler(self, train_dataset: Any = None) -> ConsecutiveRows:
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        return ConsecutiveRows(len(rows), self.args.seed)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Trainer's own, with what is remembered."""
        further = {"memory": self._memory} if model.training else {}
        return super().compute_loss(model, {**inputs, **further}, *args, **kwargs)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        torch.save(self._memory.kept(), Path(output_dir) / MEMORY)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._memory.keep(torch.load(Path(checkpoint) / MEMORY, map_location=self.args.device))
