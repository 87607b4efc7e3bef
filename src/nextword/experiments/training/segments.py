"""TRIME's long-term memory in training: rows in the order of the text, and a memory that goes from step to step."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch.utils.data import Sampler

from nextword.experiments.training.learning_rates import GroupedTrainer
from nextword.model.head_cache.kv_cache import LongMemory
from nextword.runtime import optional_libraries as extras
from nextword.runtime import processes

# -- What trainings share in which rows of a batch see one another.


class RememberingTrainer(GroupedTrainer):
    """Trainer for a head that looks back beyond its window, in one process. A concrete one names its setting.

    Args:
        rates: As in ``GroupedTrainer``.
        *args: As in Trainer.
        **kwargs: As in Trainer.

    Raises:
        ValueError: The model's head looks back over its window alone, or several processes train.
    """

    setting: ClassVar[str]
    """That asked for it."""

    def __init__(self, rates: Mapping[str, float], *args: Any, **kwargs: Any) -> None:
        super().__init__(rates, *args, **kwargs)
        ours: Any = self.model
        head = getattr(ours, "next_word_head", None)
        if head is None or head.looks_back is None:
            raise ValueError(
                f"training.{self.setting}: must be with a head that looks back beyond its window (none here); give one "
                "such as cache:long=12288"
            )
        if processes.count() > 1:
            raise ValueError(
                f"training.{self.setting}: must be in one process, which chooses the order of the rows "
                f"({processes.count()} given); start it without torchrun"
            )


# -- TRIME's long-term memory in training.


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


# -- TRIME's external memory in training: the rows of a batch are alike, and see one another.


class Bm25BatchTrainer(RememberingTrainer):
    """The rows of a batch are neighbours by BM25, and a head that looks back sees those before it in the batch.

    So what is to be copied is there, as it will be in a datastore (TRIME, Zhong et al. 2022, with batches by BM25).
    Gradients go back through all rows of a batch; nothing is remembered of another. Validation losses are those of each
    row by itself.
    """

    setting = "alike"

    def _get_train_sampler(self, train_dataset: Any = None) -> AlikeRows:
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        return AlikeRows(rows, self.args.train_batch_size, self.args.seed)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Trainer's own, with a memory of this batch."""
        further = {"memory": LongMemory()} if model.training else {}
        return super().compute_loss(model, {**inputs, **further}, *args, **kwargs)


# -- An order of training rows in which those of one batch are alike, by BM25.

NEIGHBOURS = 20
"""Of each row, those that may follow it."""


def alike_rows(rows: Sequence[Sequence[int]], batch_size: int, seed: int) -> list[int]:
    """All rows, each once, so that every ``batch_size`` of them are neighbours.

    Each row is followed by the most similar of its 20 nearest that is not taken yet, or, where all are, by one that is
    drawn. The chain is cut into batches, and these are shuffled; one that is not full comes last.

    Args:
        rows: Token ids.
        batch_size: Rows of a batch.
        seed: Draws, and shuffles the batches.

    Raises:
        ValueError: The package bm25s is missing.

    Examples:
        >>> alike_rows([[1, 2, 3], [7, 8, 9], [2, 3, 4], [8, 9, 7]], batch_size=2, seed=0)  # doctest: +SKIP
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
    """Of each row the most similar others, the nearest first."""
    if extras.missing(["bm25s"]):
        raise ValueError(f"training.alike: needs the package bm25s, not installed here ({extras.install('bm25')})")
    import bm25s

    words = [[str(token) for token in row] for row in rows]
    index = bm25s.BM25()
    index.index(words, show_progress=False)
    found = index.retrieve(words, k=min(NEIGHBOURS + 1, len(rows)), show_progress=False).documents
    return [[int(one) for one in near if one != number] for number, near in enumerate(found)]


class AlikeRows(Sampler[int]):
    """The order of ``alike_rows``, the same in every epoch.

    Args:
        rows: Data with ``input_ids``.
        batch_size: Rows of a batch.
        seed: Draws, and shuffles the batches.
    """

    def __init__(self, rows: Sequence[dict[str, Sequence[int]]], batch_size: int, seed: int) -> None:
        self._order = alike_rows([rows[number]["input_ids"] for number in range(len(rows))], batch_size, seed)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)
