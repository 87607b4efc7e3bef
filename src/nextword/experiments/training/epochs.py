"""Data sets that show other rows in each epoch."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback


class EpochSetter(TrainerCallback):
    """Calls ``set_epoch`` of the training data before each epoch is read.

    accelerate does so too, except in the rest of an epoch that a resumed training begins in the middle of: the rows
    would then be those of the first epoch. Worker processes are started when the epoch is read, so they know it.

    Args:
        dataset: Training data with ``set_epoch(epoch)``.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Tells the number of the epoch, from 0."""
        self._dataset.set_epoch(int(state.epoch))


class FixedDataset:
    """Data whose ``set_epoch`` nobody sees: accelerate would otherwise tell validation data how often it was read.

    Args:
        dataset: Data with ``column_names``, ``__len__`` and ``__getitem__``.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.column_names: list[str] = dataset.column_names

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, place: int) -> Any:
        return self._dataset[place]
